"""The clients against the real daemon, in a process of its own."""
