"""What a MySQL table is, how it is bound, how the log shows it, and what follows when it changes."""
