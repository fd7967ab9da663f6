"""Many captures: a process for each file of a folder."""
