"""The change log as rows: the ``tidemark`` data source, on executors."""
