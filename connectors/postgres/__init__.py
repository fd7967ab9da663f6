"""The PostgreSQL connector: ``python -m connectors.postgres``."""
