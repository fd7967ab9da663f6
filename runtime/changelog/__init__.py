"""The writer of the change log, and a small reader of its events."""
