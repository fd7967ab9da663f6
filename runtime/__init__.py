"""Runs and supervises any capture connector, writes the change log and shows progress: the ``tidemark`` command."""
