"""Rows of the log to protocol lines, by functions that are generated per table version."""
