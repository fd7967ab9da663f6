"""Steering a capture while it runs: orders that wait in the log's folder, and the session that passes them on."""
