"""The store against a plain dict, by random operations."""
