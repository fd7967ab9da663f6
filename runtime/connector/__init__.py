"""Connectors as processes: a local command or a container, started, used, and stopped in every case."""
