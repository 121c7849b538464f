"""Steps that bring a data folder from an older format, or from the old databases, to ours."""
