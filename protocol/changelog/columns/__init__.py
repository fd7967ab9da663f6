"""The columns of tables in the log: from a connector's schema, over changes, and which column is which."""
