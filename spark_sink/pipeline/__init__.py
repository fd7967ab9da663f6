"""Keeps tables: plans what each lacks of the log, has executors apply it, commits."""
