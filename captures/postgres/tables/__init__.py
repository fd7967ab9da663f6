"""What a PostgreSQL table is, and how it is bound. ``record`` has what follows when it changes."""
