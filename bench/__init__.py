"""Benchmarks: what the store costs, always as a ratio against a raw baseline measured beside it."""
