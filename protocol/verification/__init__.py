"""What is known of a table's rows at its source, to compare the change log and tables in Spark with it."""
