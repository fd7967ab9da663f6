"""What all databases share about a table: its collection, its bad values, its rows on the way to lines."""
