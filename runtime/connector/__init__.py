"""Connectors as processes: a local command or a container, started, spoken to, and ended in every case."""
