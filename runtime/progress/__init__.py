"""What a running capture shows: a live table on a terminal, JSON lines elsewhere."""
