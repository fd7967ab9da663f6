"""Rows of the log and of chunks to captured lines, by functions that are generated per table version."""
