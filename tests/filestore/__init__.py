"""The parts of the store by themselves: pure code, and what touches single files."""
