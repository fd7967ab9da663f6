"""The terms that all rooms of this database share: its configuration, columns, names in SQL, positions, ids, bytes."""
