"""Sessions on a MySQL or MariaDB server: authentication, settings, what must hold."""
