"""Retention: what goes, what stays, and who finds what afterwards."""
