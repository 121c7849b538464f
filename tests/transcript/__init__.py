"""Transcripts: messages, turns, and the export."""
