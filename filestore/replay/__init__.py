"""Folding a stream into what it shows. Pure."""
