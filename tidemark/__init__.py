"""Change data capture: from a database's tables and their changes into a log, and from the log into Spark tables."""
