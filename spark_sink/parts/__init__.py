"""Parts of tables: how one is planned, divided into tasks, and applied by executors or by the session's engine."""
