"""Every error code, with its retry policy and its remedy.

A code is stable: it may be retired, never reused. ``docs/errors.md`` is generated from this table
(``python -m protocol.generate``), and a test keeps the two, and the codes that the sources raise, in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Policy(StrEnum):
    """What a supervisor does about an error."""

    RETRY = "retry"
    """Start again with exponential backoff: the cause passes by itself."""

    MANUAL = "manual"
    """Stop and say so: a person must change something first."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the table.

    Attributes:
        code: ``TM-<room>-<number>``.
        title: What went wrong, as a heading.
        policy: Whether a supervisor tries again.
        remedy: What a person does about it, when the error itself does not say it more exactly.
    """

    code: str
    title: str
    policy: Policy
    remedy: str


def _table(*rows: ErrorCode) -> dict[str, ErrorCode]:
    table = {row.code: row for row in rows}
    if len(table) != len(rows):
        raise ValueError("an error code stands twice in the table")
    return table


CODES: dict[str, ErrorCode] = _table(
    # Capture protocol: messages on stdin and stdout.
    ErrorCode(
        "TM-PRO-001",
        "A line is not JSON",
        Policy.MANUAL,
        "Send one JSON object per line, UTF-8, ended by a newline.",
    ),
    ErrorCode(
        "TM-PRO-002",
        "A message has no known kind",
        Policy.MANUAL,
        "A request is an object with exactly one of the keys spec, discover, validate, apply, open, acknowledge; "
        "a response with exactly one of spec, discovered, validated, applied, opened, captured, sourcedSchema, "
        "checkpoint.",
    ),
    ErrorCode(
        "TM-PRO-003",
        "A message has a missing or wrong field",
        Policy.MANUAL,
        "Compare the message with its JSON Schema in docs/protocol/.",
    ),
    ErrorCode(
        "TM-PRO-004",
        "A message is out of order",
        Policy.MANUAL,
        "Send one of spec, discover, validate, apply as the only request, or open followed by acknowledge requests.",
    ),
    ErrorCode(
        "TM-PRO-005",
        "A line is longer than the limit",
        Policy.MANUAL,
        "Keep each message under 64 MiB; exclude the column that holds such values.",
    ),
    ErrorCode(
        "TM-PRO-006",
        "The stream ended in the middle of a line",
        Policy.RETRY,
        "The other side stopped while it wrote. Look at its own error; nothing that was acknowledged is lost.",
    ),
    ErrorCode(
        "TM-PRO-007",
        "An acknowledgement counts more checkpoints than were sent",
        Policy.MANUAL,
        "Acknowledge each checkpoint once, in order, in the session that sent it.",
    ),
    # The capture engine, in any connector.
    ErrorCode(
        "TM-CAP-001",
        "The runtime closed the connector's output",
        Policy.RETRY,
        "Look at the runtime's own error. The next run goes on from the last commit.",
    ),
    ErrorCode(
        "TM-CAP-002",
        "The connector met a defect of its own",
        Policy.RETRY,
        "Run with LOG_LEVEL=debug for the full trace, and report it with the connector's version.",
    ),
    # PostgreSQL.
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
        "Run ALTER ROLE … REPLICATION; for the configured user; on RDS run GRANT rds_replication TO …;",
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
        "Run GRANT USAGE ON SCHEMA … and GRANT SELECT ON … for the configured user.",
    ),
    ErrorCode(
        "TM-PG-009",
        "A table has no key",
        Policy.MANUAL,
        "Add a primary key, name the columns that identify a row in the table's `key`, or follow only its log with `scan: none`.",
    ),
    ErrorCode(
        "TM-PG-010",
        "Several prerequisites are not met",
        Policy.MANUAL,
        "Mend each of those listed; every one has a log line of its own with what to do.",
    ),
    ErrorCode(
        "TM-PG-011",
        "The publication lacks tables or operations",
        Policy.MANUAL,
        "Run the statement that the error gives as the owner of the tables.",
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
        "Changes are lost between the capture's position and the server's. Capture into a new change log, which reads the tables again; raise max_slot_wal_keep_size if the slot was invalidated.",
    ),
    ErrorCode(
        "TM-PG-016",
        "The position belongs to another server or a later time",
        Policy.MANUAL,
        "Point the capture at the server it read before, or capture into a new change log.",
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
        "Run ALTER TABLE … REPLICA IDENTITY DEFAULT; where there is a primary key, FULL where there is none.",
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
        'Correct the named fields; `tidemark` prints the options with {"spec":{}} and docs/postgres.md explains them.',
    ),
    ErrorCode(
        "TM-PG-024",
        "A stored position is not a log sequence number",
        Policy.MANUAL,
        "The state was changed by hand or comes from another connector: restore it.",
    ),
    ErrorCode(
        "TM-PG-025",
        "All replication slots are taken",
        Policy.MANUAL,
        "Drop slots that nothing reads, or raise max_replication_slots and restart the server.",
    ),
    # PostgreSQL: rows and values.
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
        "The table was probably altered a moment ago: the connector reads its columns again when it starts. If it goes "
        "on, backfill the table again.",
    ),
    ErrorCode(
        "TM-PG-031",
        "A value cannot be represented",
        Policy.MANUAL,
        "Exclude the named column, or report its type. Something in between (a pooler, a setting of the server) may "
        "also have changed how values are printed: connect to the server itself.",
    ),
    ErrorCode(
        "TM-PG-032",
        "The replica identity lacks the key",
        Policy.MANUAL,
        "The log of an update or delete would not say which row it was. Run: ALTER TABLE ... REPLICA IDENTITY DEFAULT "
        "(or FULL), or choose the columns of the replica identity as the binding's key.",
    ),
    # The change log on disk.
    ErrorCode(
        "TM-LOG-001",
        "There is no change log at this path",
        Policy.MANUAL,
        "Give the directory that holds tidemark.json: the capture file's log entry.",
    ),
    ErrorCode(
        "TM-LOG-002",
        "A file of the change log is damaged",
        Policy.MANUAL,
        "Restore the named file from a copy of the log. Nothing was skipped and nothing was changed.",
    ),
    ErrorCode(
        "TM-LOG-003",
        "The change log has a newer format",
        Policy.MANUAL,
        "Upgrade tidemark to the version that wrote the log, or a later one.",
    ),
    ErrorCode(
        "TM-LOG-004",
        "A file of the change log is missing",
        Policy.MANUAL,
        "Restore the named file from a copy of the log. Commits and segments are never deleted by hand.",
    ),
    ErrorCode(
        "TM-LOG-005",
        "The log belongs to another capture",
        Policy.MANUAL,
        "Give each capture a log of its own: change log: or capture: in the capture file.",
    ),
    ErrorCode(
        "TM-LOG-006",
        "Another process writes this log",
        Policy.MANUAL,
        "Stop the other process, or let it go on and do not start a second one.",
    ),
    ErrorCode(
        "TM-LOG-007",
        "Another writer has taken this log",
        Policy.MANUAL,
        "Find the other machine or container that runs this capture and stop one of the two. What this one had "
        "not committed is not in the log, and the other one reads it again from the source.",
    ),
    ErrorCode(
        "TM-LOG-008",
        "The change log cannot be written",
        Policy.RETRY,
        "Free space, or mend the permissions or the mount, at the named path. Nothing that was committed is "
        "lost, and the source keeps the rest.",
    ),
    ErrorCode(
        "TM-LOG-009",
        "A segment of the change log is corrupt or missing",
        Policy.MANUAL,
        "Restore the named file from a copy of the log. Nothing was skipped.",
    ),
    ErrorCode(
        "TM-LOG-010",
        "A value does not fit the column's type",
        Policy.MANUAL,
        "Store the column as text: add the column to the table's text: entry in the capture file. Or change the "
        "column's type at the source.",
    ),
    ErrorCode(
        "TM-LOG-011",
        "A file of the change log cannot be read",
        Policy.MANUAL,
        "Give the user who runs this the right to read the log's directory, and see that it is mounted.",
    ),
    # The capture file and the command line.
    ErrorCode(
        "TM-CFG-001",
        "The capture file cannot be read",
        Policy.MANUAL,
        "Give the path of a YAML file; 'tidemark init' writes one to start from.",
    ),
    ErrorCode(
        "TM-CFG-002",
        "The capture file has a mistake",
        Policy.MANUAL,
        "Mend the named lines; 'tidemark init' writes a file that shows every entry.",
    ),
    ErrorCode(
        "TM-CFG-003",
        "A secret of the capture file cannot be had",
        Policy.MANUAL,
        "Set the named environment variable, or make the named file readable, for the process that runs tidemark.",
    ),
    ErrorCode(
        "TM-CFG-004",
        "A table of the capture file cannot be captured",
        Policy.MANUAL,
        "Compare the entry with what 'tidemark discover FILE' lists: names are case-true, schema and table joined by "
        "a dot.",
    ),
    ErrorCode(
        "TM-CFG-005",
        "An option of a table does not fit the table or the connector",
        Policy.MANUAL,
        "Name columns that the table has; keep the key's columns; use the options that the connector's resource "
        "schema lists.",
    ),
    ErrorCode(
        "TM-CFG-006",
        "A file is already there",
        Policy.MANUAL,
        "Give another path, or move the file away.",
    ),
    ErrorCode(
        "TM-CFG-007",
        "The change log has no such table or place",
        Policy.MANUAL,
        "'tidemark status LOG' lists the tables of a log; --from takes an offset, a time in ISO 8601, earliest or "
        "latest.",
    ),
    # Connectors and the runtime.
    ErrorCode(
        "TM-RUN-001",
        "The connector cannot be started",
        Policy.MANUAL,
        "Check connector.command in the capture file: the program must exist and be executable.",
    ),
    ErrorCode(
        "TM-RUN-002",
        "The connector failed",
        Policy.RETRY,
        "Read the connector's log lines above; LOG_LEVEL=debug shows more of them.",
    ),
    ErrorCode(
        "TM-RUN-003",
        "The connector was killed",
        Policy.RETRY,
        "Something ended the connector's process from outside: often a lack of memory. Nothing committed is lost.",
    ),
    ErrorCode(
        "TM-RUN-004",
        "The connector ended too early",
        Policy.RETRY,
        "It exited without an error before it had finished what it was saying. What was not committed is read again.",
    ),
    ErrorCode(
        "TM-RUN-005",
        "The connector broke the protocol",
        Policy.MANUAL,
        "Report it to whoever wrote the connector. Nothing of what it said since the last commit was kept.",
    ),
    ErrorCode(
        "TM-RUN-006",
        "The connector speaks another version of the protocol",
        Policy.MANUAL,
        "Use a connector of protocol version 3032023 with the JSON codec.",
    ),
    ErrorCode(
        "TM-RUN-007",
        "There is no Docker engine",
        Policy.MANUAL,
        "Start Docker, or set DOCKER_HOST, and see that 'docker info' works for this user; or run the connector with "
        "connector.command instead of connector.image.",
    ),
    ErrorCode(
        "TM-RUN-008",
        "The connector's image cannot be used",
        Policy.MANUAL,
        "See that 'docker pull' finds the image; 'make images' builds the ones of this project.",
    ),
    ErrorCode(
        "TM-RUN-009",
        "The Docker engine failed",
        Policy.RETRY,
        "Look at the engine's own log; 'docker info' says whether it is up.",
    ),
    ErrorCode(
        "TM-RUN-010",
        "The connector fails again and again",
        Policy.MANUAL,
        "Every attempt ended without a commit. Mend what the last failure says, then run the capture again: it goes "
        "on from the last commit.",
    ),
    ErrorCode(
        "TM-RUN-011",
        "The connector does not answer",
        Policy.RETRY,
        "It took longer than the limit for this request. See whether the source is reachable and not overloaded.",
    ),
    ErrorCode(
        "TM-RUN-012",
        "A part of tidemark is not installed",
        Policy.MANUAL,
        "Install the extra that the message names.",
    ),
    ErrorCode(
        "TM-RUN-013",
        "The operating system refused something",
        Policy.MANUAL,
        "See to the space, the permissions or the device of the named file. Nothing committed is lost.",
    ),
    ErrorCode(
        "TM-RUN-014",
        "An unforeseen error",
        Policy.MANUAL,
        "This is a defect of tidemark. Run the same with LOG_LEVEL=debug to see where it happened, and report it. "
        "Nothing committed is lost.",
    ),
    # Backfill: the state of a table's scan, and its keys.
    ErrorCode(
        "TM-BKF-001",
        "The stored state of a table's backfill is malformed",
        Policy.MANUAL,
        "Something other than this connector wrote the state. Restore it, or remove the named table's state to have "
        "the table read again.",
    ),
    ErrorCode(
        "TM-BKF-002",
        "A key holds a NUL character",
        Policy.MANUAL,
        "Choose other key columns for the table (key in its resource config), or set its scan to none.",
    ),
    # The demo.
    ErrorCode(
        "TM-DEMO-001",
        "The demo's PostgreSQL cannot be started",
        Policy.MANUAL,
        "Install the extra with pip install 'tidemark[demo]', which brings a PostgreSQL along; the message holds the "
        "server's own last words.",
    ),
    ErrorCode(
        "TM-DEMO-002",
        "The demo's directory holds something else",
        Policy.MANUAL,
        "Give an empty or new directory with --directory; the demo replaces only what an earlier demo left.",
    ),
    ErrorCode(
        "TM-DEMO-003",
        "A step of the demo failed",
        Policy.MANUAL,
        "Read the named log file in the demo's directory: its last lines say what happened.",
    ),
    # Spark: the source, and the tables kept from a log.
    ErrorCode(
        "TM-SPK-001",
        "Spark needs Java 17 or later",
        Policy.MANUAL,
        "Install a Java 17 or 21 runtime (openjdk-17-jre-headless) and let JAVA_HOME or PATH lead to it.",
    ),
    ErrorCode(
        "TM-SPK-002",
        "PySpark or deltalake is missing or of an unsupported version",
        Policy.MANUAL,
        "Install tidemark[spark], which asks for pyspark 4.0 to 4.3 and deltalake 1.6.6 or later.",
    ),
    ErrorCode(
        "TM-SPK-003",
        "An option of the Spark source is missing or wrong",
        Policy.MANUAL,
        "Options: path, table, startingOffset (earliest, latest, an offset, a time), endingOffset, "
        "maxEventsPerBatch, maxBytesPerBatch.",
    ),
    ErrorCode(
        "TM-SPK-004",
        "The change log has no such table",
        Policy.MANUAL,
        "Write the table as schema.table, case as in the source. A table appears in the log with its first event:"
        " tidemark status shows those that are there.",
    ),
    ErrorCode(
        "TM-SPK-005",
        "A column changed to a type its values cannot be cast to",
        Policy.MANUAL,
        "For a read, give the reader a schema with a type that both have, or read the two parts by offsets. For a"
        " kept table, move its directory away: it is built again under the newest schema.",
    ),
    ErrorCode(
        "TM-SPK-006",
        "An offset is not in the change log",
        Policy.MANUAL,
        "The log was replaced, or is not the one this query read before. Give the right path, or start with a new"
        " checkpoint.",
    ),
    ErrorCode(
        "TM-SPK-007",
        "A table without a key has no current state",
        Policy.MANUAL,
        "Keep its history instead, or give it a key: a primary key in the source, or key in its resource config.",
    ),
    ErrorCode(
        "TM-SPK-008",
        "This kind or format of table is not in this version",
        Policy.MANUAL,
        "Kinds: current, history. Format: delta.",
    ),
    ErrorCode(
        "TM-SPK-009",
        "There is a table that was not kept from this change log",
        Policy.MANUAL,
        "Choose another warehouse, or move the named directory away.",
    ),
    ErrorCode(
        "TM-SPK-010",
        "Another process writes the same table",
        Policy.RETRY,
        "Run one materialize for a warehouse at a time. Nothing was lost or applied twice.",
    ),
    ErrorCode(
        "TM-SPK-011",
        "A table format cannot hold these column names",
        Policy.MANUAL,
        "Rename one of the columns in the source, or exclude it from the capture.",
    ),
    ErrorCode(
        "TM-SPK-012",
        "The key of a table changed",
        Policy.MANUAL,
        "Old events are told apart by the old key. Start a new change log for the table and backfill it under the"
        " new key.",
    ),
    ErrorCode(
        "TM-SPK-013",
        "Spark failed",
        Policy.RETRY,
        "The message holds Spark's own first line; its log says more. What was applied stays applied, and the "
        "next run goes on from there.",
    ),
    ErrorCode(
        "TM-SPK-014",
        "materialize needs a classic Spark session",
        Policy.MANUAL,
        "Run it where the driver runs (spark-submit, a local session), not through Spark Connect. The tidemark "
        "source works on both.",
    ),
    ErrorCode(
        "TM-SPK-015",
        "A Delta table cannot be read or written",
        Policy.MANUAL,
        "See to the named directory: its space, permissions and files. If the table is damaged, move the directory "
        "away; the next run builds it again from the log.",
    ),
)
