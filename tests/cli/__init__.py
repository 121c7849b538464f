"""The command line, as real processes: with a daemon and without one."""
