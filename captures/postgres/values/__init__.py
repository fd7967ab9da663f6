"""Values of each type to JSON: one path, for the log and for chunks."""
