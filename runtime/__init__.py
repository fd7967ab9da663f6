"""Runs any capture connector, writes the change log, supervises, shows. The ``tidemark`` command."""
