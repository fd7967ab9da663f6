"""Codes of PostgreSQL: the server, its privileges, its log, its rows and values."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual, retry

CODES = (
    retry(
        "TM-PG-001",
        "No connection to the server",
        "Check host and port, that the server listens there (listen_addresses), and that firewalls let the connection through.",
    ),
    manual(
        "TM-PG-002",
        "The server refuses user or password",
        "Check user and password, and that the server's pg_hba.conf has a line for this user, database and address.",
        secret=True,
    ),
    manual(
        "TM-PG-003",
        "The database does not exist",
        "Check the database's name in the configuration. `psql -l` lists the server's databases.",
    ),
    manual("TM-PG-004", "The server is too old", "Upgrade the server to PostgreSQL 14 or later."),
    manual(
        "TM-PG-005",
        "Logical decoding is off",
        "Run ALTER SYSTEM SET wal_level = logical; and restart the server. On RDS set rds.logical_replication = 1; on Cloud SQL set cloudsql.logical_decoding = on.",
    ),
    manual(
        "TM-PG-006",
        "The role may not replicate",
        "Give the configured user the attribute REPLICATION, or on RDS the role rds_replication. `tidemark check` "
        "prints the statement.",
    ),
    manual(
        "TM-PG-007",
        "A table does not exist",
        "Check the table's name, including case. `tidemark discover` lists the tables that can be captured.",
    ),
    manual(
        "TM-PG-008",
        "The role lacks a privilege",
        "Grant the configured user USAGE on the table's schema and SELECT on the table. `tidemark check` prints the "
        "statements.",
    ),
    manual(
        "TM-PG-009",
        "A table has no key",
        "Add a primary key, or name the columns that identify a row in the table's `key`. Without `scan: key`, the "
        "table is read by pages.",
    ),
    manual(
        "TM-PG-010",
        "Several prerequisites are not met",
        "Fix each of the problems: each has its own log line with a remedy, and 'tidemark check FILE' lists them all.",
    ),
    manual(
        "TM-PG-011",
        "The publication lacks tables or operations, or was dropped",
        "Run the statements in the error, as the owner of the tables. After a publication was dropped, the tables have "
        "to be read again, which `on_lost_position: backfill` in connector.config does automatically.",
    ),
    manual(
        "TM-PG-012",
        "The replication slot does not exist",
        "Set `create: true`, or create the slot: SELECT pg_create_logical_replication_slot('tidemark', 'pgoutput');",
    ),
    manual(
        "TM-PG-013",
        "The replication slot is of another kind",
        "Configure another `slot`, or drop the existing one if nothing needs it.",
    ),
    retry(
        "TM-PG-014",
        "The replication slot is in use",
        "Stop the other process that reads the slot. If it is a stream that this capture left, end it: SELECT "
        "pg_terminate_backend(PID). Give the capture another slot only before its first start: a new slot does not "
        "have its position.",
    ),
    manual(
        "TM-PG-015",
        "The server no longer has the log that the capture needs",
        "Changes between the capture's position and the start of the server's log are lost. Start over with another log "
        "and another spark.warehouse, or set `on_lost_position: backfill` in connector.config: both read the tables "
        "again. docs/postgres.md says what each cause needs.",
    ),
    manual(
        "TM-PG-016",
        "The position belongs to another server or a later time",
        "Point the capture at the server it read before, start over with another log and another spark.warehouse, or "
        "set `on_lost_position: backfill` in connector.config: the last two read the tables again.",
    ),
    manual(
        "TM-PG-017",
        "A column has a reserved name",
        "Leave the column out with `exclude: [_meta]`, or rename it.",
    ),
    manual(
        "TM-PG-018",
        "The table's REPLICA IDENTITY does not identify rows",
        "Set the table's REPLICA IDENTITY to DEFAULT if it has a primary key, otherwise to FULL. `tidemark check` "
        "prints the statement.",
    ),
    retry(
        "TM-PG-019",
        "The server refused a statement",
        "Read the server's message. If the error persists, fix the cause that the message names.",
    ),
    retry(
        "TM-PG-020",
        "The connection to the server was lost",
        "Nothing needs to be done if the connector reconnects; otherwise look at the server's log.",
    ),
    manual(
        "TM-PG-021",
        "The server sent an unknown replication message",
        "Check that the server is PostgreSQL 14 or later, not a compatible product with its own pgoutput.",
    ),
    manual(
        "TM-PG-022",
        "A table's options do not fit its columns",
        "Correct the column names in `key` and `exclude`; they are case-sensitive.",
    ),
    manual(
        "TM-PG-023",
        "The connector's configuration is wrong",
        "Correct the named entries of connector.config in the capture file. docs/postgres.md explains all of them.",
    ),
    manual(
        "TM-PG-024",
        "A stored position is not a log sequence number",
        "The state was changed by hand or comes from another connector: restore it.",
    ),
    manual(
        "TM-PG-025",
        "No replication slot or walsender is free",
        "Drop slots that nothing reads, or raise max_replication_slots and max_wal_senders and restart the server.",
    ),
    manual(
        "TM-PG-026",
        "The database's encoding is unknown",
        "The server does not check what is stored in a SQL_ASCII database: it may not be text at all. Move the data to "
        "a database with encoding UTF8.",
    ),
    retry(
        "TM-PG-030",
        "A row does not match the table's columns",
        "The table, or a type of its columns, was altered a moment ago. Within seconds the connector reads the new "
        "definition and, where it has to, the rows again. If the error persists, backfill the table again.",
    ),
    manual(
        "TM-PG-032",
        "The replica identity lacks the key",
        "The log of an update or delete would not identify the row. Set the table's REPLICA IDENTITY to DEFAULT or "
        "FULL, or choose the columns of the replica identity as the binding's key.",
    ),
    manual(
        "TM-PG-033",
        "The log changed while it was read",
        "A transaction was being read when the connection broke, and the server that took over does not have it. "
        "Nothing of it was committed. Start the capture again: it compares its position with the server's log.",
    ),
    manual(
        "TM-PG-035",
        "The log does not have the rows of a bound table",
        "Leave it out. The log has the rows of ordinary and partitioned tables, not of views, materialized views, and "
        "foreign, temporary and unlogged tables.",
    ),
    manual(
        "TM-PG-036",
        "A partition's rows are published under another table's name",
        "Capture the partitioned table instead of its partitions, or use a publication that has the partition and none "
        "of the tables it belongs to.",
    ),
    manual(
        "TM-PG-038",
        "TLS with the server cannot be set up",
        "Compare `sslmode` with what the server offers. `verify-ca` and `verify-full` need the authority's certificate "
        "in `sslrootcert`; `verify-full` also needs a server certificate for the exact name in `host`. A client "
        "certificate needs `sslcert` and `sslkey`; only its owner may be able to read the key's file, and it must not "
        "have a passphrase.",
    ),
    manual(
        "TM-PG-040",
        "The replication slot belongs to another capture",
        "Configure another slot for one of the captures, or none: by default a slot has its capture's name. Two "
        "captures on one slot would each advance it past changes that the other still needs.",
    ),
    manual(
        "TM-PG-041",
        "The replication slot existed before the capture began",
        "If another capture reads the slot, configure another one. If the capture has run before, its change log is "
        "missing: restore it. To start over, drop the slot with the statement in the error. If the slot was created for "
        "this capture, set create: false.",
    ),
    manual(
        "TM-PG-043",
        "A name has bytes that stand for no character",
        "The database's encoding is not UTF8, and has no character for some bytes of the name of a table, a column, an "
        "attribute of a type or a partition. Neither a statement nor a document can have such a name; messages show its "
        "bytes as \\x81. Give it another name by the statement in the error, or leave the column out by `exclude`.",
    ),
    manual(
        "TM-PG-044",
        "Partitions were detached or dropped, and their rows stay downstream",
        "The log has no events of these rows. Most often they are to stay: partitions are dropped to make room at the "
        "source. Rows that are deleted before their partition is detached are deleted downstream, too. To have all of them "
        "go, set on_partition_gone: reread, which reads the table again each time; for this time, run tidemark backfill "
        "with --truncate.",
    ),
    manual(
        "TM-PG-045",
        "The event trigger on rewrites is disabled, or another version",
        "A capture works without it. Enable it by the statement in the warning, replace it by the script that `tidemark "
        "check FILE --fix-sql` prints, or drop it.",
    ),
    manual(
        "TM-PG-046",
        "The server's clock and this machine's differ",
        "Have both machines keep their time by the same time server (chrony, systemd-timesyncd). The lag is counted from "
        "the server's times of commits: it is wrong by the difference, and so are reads as of a time.",
    ),
)
