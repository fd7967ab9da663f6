"""Statements that the binary log has: what they do to tables, and to rows of which it does not tell."""
