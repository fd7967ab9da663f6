"""Reading databases: backfills, logs, and what they cost."""
