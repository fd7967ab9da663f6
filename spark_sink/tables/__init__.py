"""What a table is: which are kept of a log, of which kind, with which columns."""
