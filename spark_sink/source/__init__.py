"""The change log as rows: events, read on executors for the ``tidemark`` data source and all that is built on it."""
