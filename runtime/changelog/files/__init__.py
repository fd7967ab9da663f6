"""The files of a change log that is written: its lock, what a failure is, and what dead writers left."""
