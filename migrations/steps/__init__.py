"""One module for each migration of users' data."""
