"""Bad input: one table of all that is wrong, and every method with anything at all."""
