"""MySQL and MariaDB: the binlog, chunks, types, and what an operator must set up."""
