"""Codes of MySQL and MariaDB: the server, its privileges, its log, its rows and values."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
    ErrorCode(
        "TM-MY-001",
        "No connection to the server",
        Policy.RETRY,
        "Check host and port, that the server listens there (bind_address, skip_networking), and that firewalls let the connection through.",
    ),
    ErrorCode(
        "TM-MY-002",
        "The server refuses user or password",
        Policy.MANUAL,
        "Check user and password, and that the account exists for the host that the connector comes from: SELECT user, host FROM mysql.user;",
    ),
    ErrorCode(
        "TM-MY-003",
        "No encrypted connection as configured",
        Policy.MANUAL,
        "Check ssl_mode and ssl_ca: the server must offer TLS for REQUIRED, its certificate must be signed by an authority of ssl_ca for VERIFY_CA, name the configured host for VERIFY_IDENTITY; and it must trust the authority of ssl_cert, where that is set.",
    ),
    ErrorCode(
        "TM-MY-004",
        "The server is too old or not known",
        Policy.MANUAL,
        "Upgrade the server to MySQL 5.7 or MariaDB 10.5, or later.",
    ),
    ErrorCode(
        "TM-MY-005",
        "The binary log is off or not of rows",
        Policy.MANUAL,
        "In the server's configuration: log_bin, binlog_format=ROW, binlog_row_image=FULL; then restart it. On RDS and Aurora set binlog_format=ROW in the (cluster) parameter group, with backups switched on; on Cloud SQL enable point-in-time recovery; on Azure set binlog_row_image=FULL among the server parameters.",
    ),
    ErrorCode(
        "TM-MY-006",
        "The user may not replicate",
        Policy.MANUAL,
        "Run the GRANT that the error gives as an administrator.",
    ),
    ErrorCode(
        "TM-MY-007",
        "A table does not exist",
        Policy.MANUAL,
        "Check the table's name, case included, and that the user may see it; `tidemark discover` lists the tables that can be captured.",
    ),
    ErrorCode(
        "TM-MY-008",
        "The user lacks a privilege",
        Policy.MANUAL,
        "Grant the configured user SELECT on the table. `tidemark check` prints the statement.",
    ),
    ErrorCode(
        "TM-MY-009",
        "A table has no key",
        Policy.MANUAL,
        "Add a primary key, name the columns that identify a row in the table's `key`, follow only its log with "
        "`scan: none`, or read it with `scan: snapshot`, in one transaction that cannot go on after a break.",
    ),
    ErrorCode(
        "TM-MY-010",
        "Several prerequisites are not met",
        Policy.MANUAL,
        "Mend each of those listed; every one has a log line of its own with what to do.",
    ),
    ErrorCode(
        "TM-MY-011",
        "The server's replication settings do not fit",
        Policy.MANUAL,
        "Run the statement, or set the option, that the error gives.",
    ),
    ErrorCode(
        "TM-MY-012",
        "Binary logs are not kept long enough",
        Policy.MANUAL,
        "A capture that was stopped for longer than the server keeps its logs has to read its tables again. Run SET GLOBAL binlog_expire_logs_seconds = 604800; on RDS and Aurora CALL mysql.rds_set_configuration('binlog retention hours', 168); on Cloud SQL set the days of transaction logs; on Azure set binlog_expire_logs_seconds.",
    ),
    ErrorCode(
        "TM-MY-015",
        "The server no longer has the log that the capture needs",
        Policy.MANUAL,
        "Changes are lost between the capture's position and the server's log. Set `on_lost_position: backfill`: all tables are read again, into the same change log. Or begin anew with another log and another spark.warehouse. To prevent it, keep binary logs longer (binlog_expire_logs_seconds, expire_logs_days).",
    ),
    ErrorCode(
        "TM-MY-016",
        "The position belongs to another server or another history",
        Policy.MANUAL,
        "Point the capture at the server it read before, or at one that has all of its transactions by GTID. Or set `on_lost_position: backfill`: all tables are read again, into the same change log; or begin anew with another log and another spark.warehouse.",
    ),
    ErrorCode(
        "TM-MY-017",
        "A column has a reserved name",
        Policy.MANUAL,
        "Leave the column out with `exclude: [_meta]`, or rename it.",
    ),
    ErrorCode(
        "TM-MY-019",
        "The server refused a statement",
        Policy.RETRY,
        "Look at the server's message; if it persists, mend the cause it names.",
    ),
    ErrorCode(
        "TM-MY-020",
        "The connection to the server was lost",
        Policy.RETRY,
        "Nothing needs to be done if it passes; otherwise look at the server's log.",
    ),
    ErrorCode(
        "TM-MY-022",
        "A table's options do not fit its columns",
        Policy.MANUAL,
        "Correct the column names in `key` and `exclude`; they are case-sensitive.",
    ),
    ErrorCode(
        "TM-MY-023",
        "The connector's configuration is wrong",
        Policy.MANUAL,
        "Correct the named entries of connector.config in the capture file; docs/mysql.md explains all of them.",
    ),
    ErrorCode(
        "TM-MY-024",
        "A key is not one of the table's",
        Policy.MANUAL,
        "Correct the bounds that were asked for; where the connector's state holds the key, something else has changed the state: restore it.",
    ),
    ErrorCode(
        "TM-MY-030",
        "A table is not as the capture knows it",
        Policy.RETRY,
        "The table was probably altered a moment ago: the connector reads its columns again when it starts. If it goes on, backfill the table again.",
    ),
    ErrorCode(
        "TM-MY-031",
        "A value cannot be represented",
        Policy.MANUAL,
        "Exclude the named column, or mend the value: a text in a JSON column that is not JSON, for one.",
    ),
    ErrorCode(
        "TM-MY-032",
        "The labels of an enum or set cannot be told from the catalog",
        Policy.MANUAL,
        "Have the log name them: SET GLOBAL binlog_row_metadata = FULL; (from MariaDB 10.5 and MySQL 8.0.1 on). Or exclude "
        "the column. The catalog prints a character beyond U+FFFF as a question mark.",
    ),
    ErrorCode(
        "TM-MY-042",
        "Another replica has the same server_id",
        Policy.MANUAL,
        "Give each capture and each replica of this server a server_id of its own: set `server_id` in the configuration. SHOW SLAVE HOSTS (SHOW REPLICAS) lists those that are in use.",
    ),
    ErrorCode(
        "TM-MY-043",
        "An event is larger than the server sends",
        Policy.MANUAL,
        "Run SET GLOBAL max_allowed_packet = 1073741824; and keep it so in the server's configuration.",
    ),
    ErrorCode(
        "TM-MY-044",
        "An event of the log is not understood",
        Policy.MANUAL,
        "The server is probably newer than this connector: upgrade the connector.",
    ),
    ErrorCode(
        "TM-MY-045",
        "A captured table was changed in statement format",
        Policy.MANUAL,
        "Nothing needs to be done for the table: it is emptied and read again. So that it does not happen again, run SET GLOBAL binlog_format = ROW; and let no session set another one. Where such statements change no captured rows, `on_statement: warn` in connector.config only says that there was one; then `tidemark backfill` a table of which it did.",
    ),
    ErrorCode(
        "TM-MY-047",
        "A row in the log lacks the table's key",
        Policy.MANUAL,
        "Nothing needs to be done for the table: it is emptied and read again. So that it does not happen again, run SET GLOBAL binlog_row_image = FULL; and let no session set another one.",
    ),
    ErrorCode(
        "TM-MY-048",
        "The server lost events of its own log",
        Policy.MANUAL,
        "The log has a gap, for which the server's error log gives the reason. Capture into a new change log, which reads the tables again.",
    ),
    ErrorCode(
        "TM-MY-049",
        "An event of the log is damaged",
        Policy.RETRY,
        "If it persists, a binary log file is damaged at the server: check it with mysqlbinlog --verify-binlog-checksum, and capture into a new change log.",
    ),
    ErrorCode(
        "TM-MY-053",
        "The rows of a prepared XA transaction are gone",
        Policy.MANUAL,
        "The transaction was prepared so long ago that the server has removed the log of it. Capture into a new change log, and keep binary logs longer than XA transactions stay prepared.",
    ),
    ErrorCode(
        "TM-MY-054",
        "Another server answers",
        Policy.RETRY,
        "Nothing needs to be done: the connector looks for its position at the new server when it starts again.",
    ),
    ErrorCode(
        "TM-MY-055",
        "A position in the log is malformed",
        Policy.MANUAL,
        "The state was changed by hand, or is another connector's: use the state of the last checkpoint.",
    ),
)
