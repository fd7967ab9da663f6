"""Spark itself: its session, the JVM of a driver, what executors have, and what Spark raises when it fails."""
