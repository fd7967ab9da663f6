"""What a PostgreSQL table is, how it is bound, and what follows when it changes."""
