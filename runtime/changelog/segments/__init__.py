"""Writes segments, and states the keys of their rows."""
