"""A connector process: it answers requests, runs a session of a capture, and plans backfills."""
