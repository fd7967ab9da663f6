"""What commands take from a terminal, and write to it."""
