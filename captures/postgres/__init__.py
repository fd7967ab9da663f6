"""PostgreSQL 14 and later: pgoutput from a logical replication slot, chunks by COPY."""
