"""Whole change logs: checked and copied."""
