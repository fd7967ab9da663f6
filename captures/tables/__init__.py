"""What all databases share about a table: its collection, its configuration, its bad values."""
