"""Support for tests: processes to kill, faults to inject, models to compare with."""
