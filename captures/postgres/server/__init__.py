"""Sessions on a PostgreSQL server, and its slot: settings, ownership, retention, what must hold."""
