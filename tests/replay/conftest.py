"""The fixtures of tests/sessions/, for the tests of replay that need a store."""

from tests.sessions.conftest import on, sessions, store

__all__ = ["on", "sessions", "store"]
