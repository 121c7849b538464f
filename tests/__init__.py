"""Tests; the folders mirror the rooms."""
