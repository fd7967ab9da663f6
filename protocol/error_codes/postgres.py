"""Codes of PostgreSQL: the server, its privileges, its log, its rows and values."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
    ErrorCode(
        "TM-PG-001",
        "No connection to the server",
        Policy.RETRY,
        "Check host and port, that the server listens there (listen_addresses), and that firewalls let the connection through.",
    ),
    ErrorCode(
        "TM-PG-002",
        "The server refuses user or password",
        Policy.MANUAL,
        "Check user and password, and that the server's pg_hba.conf has a line for this user, database and address.",
    ),
    ErrorCode(
        "TM-PG-003",
        "The database does not exist",
        Policy.MANUAL,
        "Check the database's name in the configuration. `psql -l` lists the server's databases.",
    ),
    ErrorCode("TM-PG-004", "The server is too old", Policy.MANUAL, "Upgrade the server to PostgreSQL 14 or later."),
    ErrorCode(
        "TM-PG-005",
        "Logical decoding is off",
        Policy.MANUAL,
        "Run ALTER SYSTEM SET wal_level = logical; and restart the server. On RDS set rds.logical_replication = 1; on Cloud SQL set cloudsql.logical_decoding = on.",
    ),
    ErrorCode(
        "TM-PG-006",
        "The role may not replicate",
        Policy.MANUAL,
        "Give the configured user the attribute REPLICATION, or on RDS the role rds_replication. `tidemark check` "
        "prints the statement.",
    ),
    ErrorCode(
        "TM-PG-007",
        "A table does not exist",
        Policy.MANUAL,
        "Check the table's name, including case. `tidemark discover` lists the tables that can be captured.",
    ),
    ErrorCode(
        "TM-PG-008",
        "The role lacks a privilege",
        Policy.MANUAL,
        "Grant the configured user USAGE on the table's schema and SELECT on the table. `tidemark check` prints the "
        "statements.",
    ),
    ErrorCode(
        "TM-PG-009",
        "A table has no key",
        Policy.MANUAL,
        "Add a primary key, or name the columns that identify a row in the table's `key`. Without `scan: key`, the "
        "table is read by pages.",
    ),
    ErrorCode(
        "TM-PG-010",
        "Several prerequisites are not met",
        Policy.MANUAL,
        "Fix each of the problems listed: each has its own log line with a remedy.",
    ),
    ErrorCode(
        "TM-PG-011",
        "The publication lacks tables or operations, or was dropped",
        Policy.MANUAL,
        "Run the statements in the error, as the owner of the tables. After a publication was dropped, the tables have "
        "to be read again, which `on_lost_position: backfill` does automatically.",
    ),
    ErrorCode(
        "TM-PG-012",
        "The replication slot does not exist",
        Policy.MANUAL,
        "Set `create: true`, or create the slot: SELECT pg_create_logical_replication_slot('tidemark', 'pgoutput');",
    ),
    ErrorCode(
        "TM-PG-013",
        "The replication slot is of another kind",
        Policy.MANUAL,
        "Configure another `slot`, or drop the existing one if nothing needs it.",
    ),
    ErrorCode(
        "TM-PG-014",
        "The replication slot is in use",
        Policy.RETRY,
        "Stop the other process that reads the slot, or give this capture its own slot.",
    ),
    ErrorCode(
        "TM-PG-015",
        "The server no longer has the log that the capture needs",
        Policy.MANUAL,
        "Changes between the capture's position and the start of the server's log are lost. Start over with another log "
        "and another spark.warehouse, or set `on_lost_position: backfill`: both read the tables again. docs/postgres.md "
        "says what each cause needs.",
    ),
    ErrorCode(
        "TM-PG-016",
        "The position belongs to another server or a later time",
        Policy.MANUAL,
        "Point the capture at the server it read before, start over with another log and another spark.warehouse, or "
        "set `on_lost_position: backfill`: the last two read the tables again.",
    ),
    ErrorCode(
        "TM-PG-017",
        "A column has a reserved name",
        Policy.MANUAL,
        "Leave the column out with `exclude: [_meta]`, or rename it.",
    ),
    ErrorCode(
        "TM-PG-018",
        "The table's REPLICA IDENTITY does not identify rows",
        Policy.MANUAL,
        "Set the table's REPLICA IDENTITY to DEFAULT if it has a primary key, otherwise to FULL. `tidemark check` "
        "prints the statement.",
    ),
    ErrorCode(
        "TM-PG-019",
        "The server refused a statement",
        Policy.RETRY,
        "Read the server's message. If the error persists, fix the cause that the message names.",
    ),
    ErrorCode(
        "TM-PG-020",
        "The connection to the server was lost",
        Policy.RETRY,
        "Nothing needs to be done if the connector reconnects; otherwise look at the server's log.",
    ),
    ErrorCode(
        "TM-PG-021",
        "The server sent an unknown replication message",
        Policy.MANUAL,
        "Check that the server is PostgreSQL 14 or later, not a compatible product with its own pgoutput.",
    ),
    ErrorCode(
        "TM-PG-022",
        "A table's options do not fit its columns",
        Policy.MANUAL,
        "Correct the column names in `key` and `exclude`; they are case-sensitive.",
    ),
    ErrorCode(
        "TM-PG-023",
        "The connector's configuration is wrong",
        Policy.MANUAL,
        "Correct the named entries of connector.config in the capture file. docs/postgres.md explains all of them.",
    ),
    ErrorCode(
        "TM-PG-024",
        "A stored position is not a log sequence number",
        Policy.MANUAL,
        "The state was changed by hand or comes from another connector: restore it.",
    ),
    ErrorCode(
        "TM-PG-025",
        "No replication slot or walsender is free",
        Policy.MANUAL,
        "Drop slots that nothing reads, or raise max_replication_slots and max_wal_senders and restart the server.",
    ),
    ErrorCode(
        "TM-PG-026",
        "The database's encoding is unknown",
        Policy.MANUAL,
        "The server does not check what is stored in a SQL_ASCII database: it may not be text at all. Move the data to "
        "a database with encoding UTF8.",
    ),
    ErrorCode(
        "TM-PG-030",
        "A row does not match the table's columns",
        Policy.RETRY,
        "The table, or a type of its columns, was altered a moment ago. Within seconds the connector reads the new "
        "definition and, where it has to, the rows again. If the error persists, backfill the table again.",
    ),
    ErrorCode(
        "TM-PG-032",
        "The replica identity lacks the key",
        Policy.MANUAL,
        "The log of an update or delete would not identify the row. Set the table's REPLICA IDENTITY to DEFAULT or "
        "FULL, or choose the columns of the replica identity as the binding's key.",
    ),
    ErrorCode(
        "TM-PG-033",
        "The log changed while it was read",
        Policy.MANUAL,
        "A transaction was being read when the connection broke, and the server that took over does not have it. "
        "Nothing of it was committed. Start the capture again: it compares its position with the server's log.",
    ),
    ErrorCode(
        "TM-PG-035",
        "The log does not have the rows of a bound table",
        Policy.MANUAL,
        "Leave it out. The log has the rows of ordinary and partitioned tables, not of views, materialized views, and "
        "foreign, temporary and unlogged tables.",
    ),
    ErrorCode(
        "TM-PG-036",
        "A partition's rows are published under another table's name",
        Policy.MANUAL,
        "Capture the partitioned table instead of its partitions, or use a publication that has the partition and none "
        "of the tables it belongs to.",
    ),
    ErrorCode(
        "TM-PG-038",
        "TLS with the server cannot be set up",
        Policy.MANUAL,
        "Compare `sslmode` with what the server offers. `verify-ca` and `verify-full` need the authority's certificate "
        "in `sslrootcert`; `verify-full` also needs a server certificate for the exact name in `host`. A client "
        "certificate needs `sslcert` and `sslkey`; only its owner may be able to read the key's file, and it must not "
        "have a passphrase.",
    ),
    ErrorCode(
        "TM-PG-040",
        "The replication slot belongs to another capture",
        Policy.MANUAL,
        "Configure another slot for one of the captures, or none: by default a slot has its capture's name. Two "
        "captures on one slot would each advance it past changes that the other still needs.",
    ),
    ErrorCode(
        "TM-PG-041",
        "The replication slot existed before the capture began",
        Policy.MANUAL,
        "If the capture has run before, its change log is missing: restore it. To start over, drop the slot with the "
        "statement in the error. If the slot was created for this capture, set create: false.",
    ),
    ErrorCode(
        "TM-PG-043",
        "A name has bytes that stand for no character",
        Policy.MANUAL,
        "The database's encoding is not UTF8, and has no character for some bytes of the name of a table, a column, an "
        "attribute of a type or a partition. Neither a statement nor a document can have such a name; messages show its "
        "bytes as \\x81. Give it another name by the statement in the error, or leave the column out by `exclude`.",
    ),
    ErrorCode(
        "TM-PG-044",
        "Partitions were detached or dropped, and their rows stay downstream",
        Policy.MANUAL,
        "The log has no events of these rows. Most often they are to stay: partitions are dropped to make room at the "
        "source. To have the same rows downstream, leave the table out of the capture file for one session, and put it "
        "back: it is then emptied and read again. Rows that are deleted before their partition is detached are deleted "
        "downstream, too.",
    ),
)
