"""Change logs in Spark: the ``tidemark`` data source, and tables kept from a log."""
