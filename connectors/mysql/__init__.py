"""The MySQL and MariaDB connector: ``python -m tidemark.connectors.mysql``."""
