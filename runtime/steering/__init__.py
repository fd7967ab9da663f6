"""Controls a running capture: commands that wait in the log's folder, and the session that sends them."""
