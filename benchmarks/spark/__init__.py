"""Keeping and reading tables in Spark."""
