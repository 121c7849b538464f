"""The command line: one verb per module, web stack imported only by the verbs that serve."""
