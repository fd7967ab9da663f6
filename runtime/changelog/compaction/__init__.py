"""Compacts commits of a change log: many small files become few large ones, with the same events."""
