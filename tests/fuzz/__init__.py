"""Targets for fuzzing: `make fuzz` runs them for long, the tests for a moment."""
