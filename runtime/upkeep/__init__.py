"""Whole change logs: proved to be as they were written, and copied elsewhere."""
