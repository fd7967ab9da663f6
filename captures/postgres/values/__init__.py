"""Converts values of each type to JSON, the same way for the log and for chunks."""
