"""The PostgreSQL connector: ``python -m tidemark.connectors.postgres``."""
