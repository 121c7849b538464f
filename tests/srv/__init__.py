"""Tests of what talks: the command line."""
