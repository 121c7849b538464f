"""The fold of streams into nodes."""
