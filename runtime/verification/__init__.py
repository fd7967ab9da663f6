"""Compares the change log with the source: what a running capture notes of its rows, and the comparison."""
