"""The MySQL and MariaDB connector: ``python -m connectors.mysql``."""
