"""What is too old to be kept is removed from a log, and its files are deleted."""
