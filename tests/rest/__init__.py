"""REST through the real daemon."""
