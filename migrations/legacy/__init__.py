"""Reading the old databases. They are never written."""
