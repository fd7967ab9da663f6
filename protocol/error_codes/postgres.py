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
        "Check user and password, and the server's pg_hba.conf: it needs a line for this user, database and address.",
    ),
    ErrorCode(
        "TM-PG-003",
        "The database does not exist",
        Policy.MANUAL,
        "Check the database's name in the configuration; `psql -l` lists the server's databases.",
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
        "Give the configured user the attribute REPLICATION, or on RDS the role rds_replication. `tidemark check` prints "
        "the statement.",
    ),
    ErrorCode(
        "TM-PG-007",
        "A table does not exist",
        Policy.MANUAL,
        "Check the table's name, case included; `tidemark discover` lists the tables that can be captured.",
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
        "Add a primary key, name the columns that identify a row in the table's `key`, or leave out `scan: key`: the table is then read by its pages.",
    ),
    ErrorCode(
        "TM-PG-010",
        "Several prerequisites are not met",
        Policy.MANUAL,
        "Mend each of those listed; every one has a log line of its own with what to do.",
    ),
    ErrorCode(
        "TM-PG-011",
        "The publication lacks tables or operations, or was dropped",
        Policy.MANUAL,
        "Run the statements that the error gives, as the owner of the tables. After a publication was dropped the tables have "
        "to be read again, which `on_lost_position: backfill` does by itself.",
    ),
    ErrorCode(
        "TM-PG-012",
        "The replication slot does not exist",
        Policy.MANUAL,
        "Set `create: true`, or make the slot: SELECT pg_create_logical_replication_slot('tidemark', 'pgoutput');",
    ),
    ErrorCode(
        "TM-PG-013",
        "The replication slot is for something else",
        Policy.MANUAL,
        "Choose another `slot` in the configuration, or drop the one that is there if nothing needs it.",
    ),
    ErrorCode(
        "TM-PG-014",
        "The replication slot is in use",
        Policy.RETRY,
        "Stop the other process that reads the slot, or give this capture a slot of its own.",
    ),
    ErrorCode(
        "TM-PG-015",
        "The server no longer has the log that the capture needs",
        Policy.MANUAL,
        "Changes are lost between the capture's position and the server's. Begin anew with another log and another spark.warehouse, or set "
        "`on_lost_position: backfill`: both read the tables again. docs/postgres.md says what each cause needs.",
    ),
    ErrorCode(
        "TM-PG-016",
        "The position belongs to another server or a later time",
        Policy.MANUAL,
        "Point the capture at the server that it read before, or begin anew with another log and another spark.warehouse, or set "
        "`on_lost_position: backfill`: both read the tables again.",
    ),
    ErrorCode(
        "TM-PG-017",
        "A column has a reserved name",
        Policy.MANUAL,
        "Leave the column out with `exclude: [_meta]`, or rename it.",
    ),
    ErrorCode(
        "TM-PG-018",
        "The table's REPLICA IDENTITY cannot tell rows apart",
        Policy.MANUAL,
        "Set the table's REPLICA IDENTITY to DEFAULT where it has a primary key, to FULL where it has none. `tidemark "
        "check` prints the statement.",
    ),
    ErrorCode(
        "TM-PG-019",
        "The server refused a statement",
        Policy.RETRY,
        "Look at the server's message; if it persists, mend the cause it names.",
    ),
    ErrorCode(
        "TM-PG-020",
        "The connection to the server was lost",
        Policy.RETRY,
        "Nothing needs to be done if it passes; otherwise look at the server's log.",
    ),
    ErrorCode(
        "TM-PG-021",
        "The server sent an unknown replication message",
        Policy.MANUAL,
        "Check that the server is PostgreSQL 14 or later and not a compatible product with a pgoutput of its own.",
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
        "Correct the named entries of connector.config in the capture file; docs/postgres.md explains all of them.",
    ),
    ErrorCode(
        "TM-PG-024",
        "A stored position is not a log sequence number",
        Policy.MANUAL,
        "The state was changed by hand or comes from another connector: restore it.",
    ),
    ErrorCode(
        "TM-PG-025",
        "All replication slots or walsenders are taken",
        Policy.MANUAL,
        "Drop slots that nothing reads, or raise max_replication_slots and max_wal_senders and restart the server.",
    ),
    ErrorCode(
        "TM-PG-026",
        "The database's encoding is not known",
        Policy.MANUAL,
        "The server does not check what is stored in a SQL_ASCII database, so it may not be text at all: move the data to a database with encoding UTF8.",
    ),
    ErrorCode(
        "TM-PG-030",
        "A row does not match the table's columns",
        Policy.RETRY,
        "The table, or a type of its columns, was altered a moment ago: within seconds the connector knows it as it is "
        "now, and reads its rows again where it has to. If it goes on, backfill the table again.",
    ),
    ErrorCode(
        "TM-PG-032",
        "The replica identity lacks the key",
        Policy.MANUAL,
        "The log of an update or delete would not say which row it was. Set the table's REPLICA "
        "IDENTITY to DEFAULT or FULL, or choose the columns of the replica identity as the binding's key.",
    ),
    ErrorCode(
        "TM-PG-033",
        "The log changed while it was read",
        Policy.MANUAL,
        "The server that took over lacks a transaction that was being read when the connection broke; nothing of it was "
        "committed. Start the capture again: it compares its position with the server's log.",
    ),
    ErrorCode(
        "TM-PG-035",
        "What a binding names is not in the log",
        Policy.MANUAL,
        "Leave it out. The log has the rows of ordinary and partitioned tables: not of views, materialized views, foreign, "
        "temporary and unlogged tables.",
    ),
    ErrorCode(
        "TM-PG-036",
        "A partition's rows come under another table's name",
        Policy.MANUAL,
        "Capture the partitioned table and not its partitions, or use a publication that has the partition and none of the "
        "tables that it is a part of.",
    ),
    ErrorCode(
        "TM-PG-038",
        "TLS with the server cannot be set up",
        Policy.MANUAL,
        "Compare `sslmode` with what the server has. `verify-ca` and `verify-full` need the authority's certificate in "
        "`sslrootcert`, and `verify-full` a server certificate for the very name in `host`. A client certificate needs "
        "`sslcert` and `sslkey`; the key's file must be readable by its owner only, and not have a passphrase.",
    ),
    ErrorCode(
        "TM-PG-040",
        "The replication slot is another capture's",
        Policy.MANUAL,
        "Configure another slot for one of the captures, or none: by default a slot has its capture's name. Two captures "
        "that read one slot would each move it past what the other still needs.",
    ),
    ErrorCode(
        "TM-PG-041",
        "The replication slot is there before the capture has begun",
        Policy.MANUAL,
        "If the capture has run before, its change log is missing: bring it back. To begin anew, drop the slot with the "
        "statement that the error gives. If somebody has made the slot for this capture, set create: false.",
    ),
)
