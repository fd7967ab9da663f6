"""From documents to the columns of a table, and what is kept apart on the way."""
