"""Tells commands and web servers when the state of a capture changes."""
