"""Our own linter, written as tests: each checker is pure and proved on a bad sample."""
