"""How a table is written, and where its position in the log is stored."""
