"""Codes of MySQL and MariaDB: the server, its privileges, its log, its rows and values."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual, retry

CODES = (
    retry(
        "TM-MY-001",
        "No connection to the server",
        "Check host and port, that the server listens there (bind_address, skip_networking), and that firewalls let the connection through.",
    ),
    manual(
        "TM-MY-002",
        "The server refuses user or password",
        "Check user and password, and that the account exists for the connector's host: SELECT user, host FROM "
        "mysql.user;",
        secret=True,
    ),
    manual(
        "TM-MY-003",
        "An encrypted connection cannot be made as configured",
        "Check ssl_mode and ssl_ca. REQUIRED: the server must offer TLS. VERIFY_CA: an authority in ssl_ca must have "
        "signed the server's certificate. VERIFY_IDENTITY: the certificate must also name the configured host. If "
        "ssl_cert is set, the server must trust the authority that signed it.",
    ),
    manual(
        "TM-MY-004",
        "The server is too old or unknown",
        "Upgrade the server to MySQL 5.7 or MariaDB 10.5, or later.",
    ),
    manual(
        "TM-MY-005",
        "The binary log is off or not in row format",
        "Set log_bin, binlog_format=ROW and binlog_row_image=FULL in the server's configuration, and restart it. On RDS "
        "and Aurora set binlog_format=ROW in the (cluster) parameter group, with backups enabled; on Cloud SQL enable "
        "point-in-time recovery; on Azure set the server parameter binlog_row_image=FULL.",
    ),
    manual(
        "TM-MY-006",
        "The user may not replicate",
        "Run the GRANT in the error, as an administrator.",
    ),
    manual(
        "TM-MY-007",
        "A table does not exist",
        "Check the table's name, including case, and that the user has a privilege on it. `tidemark discover` lists the "
        "tables that can be captured.",
    ),
    manual(
        "TM-MY-008",
        "The user lacks a privilege",
        "Grant the configured user SELECT on the table. `tidemark check` prints the statement.",
    ),
    manual(
        "TM-MY-009",
        "A table has no key",
        "Add a primary key, name the columns that identify a row in the table's `key`, capture only its log with `scan: "
        "none`, or read it with `scan: snapshot`, in one transaction that cannot be resumed after it breaks.",
    ),
    manual(
        "TM-MY-010",
        "Several prerequisites are not met",
        "Fix each of the problems: each has its own log line with a remedy, and 'tidemark check FILE' lists them all.",
    ),
    manual(
        "TM-MY-011",
        "The server's replication settings do not suffice",
        "Run the statement, or set the option, in the error.",
    ),
    manual(
        "TM-MY-012",
        "Binary logs are not kept long enough",
        "After a capture was stopped for longer than the server keeps its logs, all tables have to be read again. Run "
        "SET GLOBAL binlog_expire_logs_seconds = 604800; on RDS and Aurora CALL mysql.rds_set_configuration('binlog "
        "retention hours', 168); on Cloud SQL set the days of transaction logs; on Azure set "
        "binlog_expire_logs_seconds.",
    ),
    manual(
        "TM-MY-015",
        "The server no longer has the log that the capture needs",
        "Changes between the capture's position and the start of the server's log are lost. Set `on_lost_position: "
        "backfill` in connector.config to read all tables again into the same change log, or start over with another "
        "log and another spark.warehouse. To prevent this, keep binary logs longer (binlog_expire_logs_seconds, "
        "expire_logs_days), and run no RESET MASTER (RESET BINARY LOGS AND GTIDS) on a server that is captured.",
    ),
    manual(
        "TM-MY-016",
        "The position belongs to another server or another history",
        "Point the capture at the server it read before, or at one that has all of its transactions by GTID. Or set "
        "`on_lost_position: backfill` in connector.config to read all tables again into the same change log, or start "
        "over with another log and another spark.warehouse. To prevent this, run no RESET MASTER (RESET BINARY LOGS AND "
        "GTIDS) on a server that is captured.",
    ),
    manual(
        "TM-MY-017",
        "A column has a reserved name",
        "Leave the column out with `exclude: [_meta]`, or rename it.",
    ),
    retry(
        "TM-MY-019",
        "The server refused a statement",
        "Read the server's message. If the error persists, fix the cause that the message names.",
    ),
    retry(
        "TM-MY-020",
        "The connection to the server was lost",
        "Nothing needs to be done if the connector reconnects; otherwise look at the server's log.",
    ),
    manual(
        "TM-MY-022",
        "A table's options do not fit its columns",
        "Correct the column names in `key` and `exclude`; they are case-sensitive.",
    ),
    manual(
        "TM-MY-023",
        "The connector's configuration is wrong",
        "Correct the named entries of connector.config in the capture file. docs/mysql.md explains all of them.",
    ),
    manual(
        "TM-MY-024",
        "A key does not fit the table",
        "Correct the bounds in the command. If the connector's state holds the key, something else changed the state: "
        "restore it.",
    ),
    retry(
        "TM-MY-030",
        "A table does not match its last known definition",
        "The table was probably altered a moment ago: the connector reads its columns again when it starts. If the "
        "error persists, backfill the table again.",
    ),
    manual(
        "TM-MY-031",
        "A value cannot be represented",
        "Exclude the named column, or fix the value, such as text that is not JSON in a JSON column.",
    ),
    manual(
        "TM-MY-032",
        "The catalog does not show the labels of an enum or set exactly",
        "Have the log name the labels: SET GLOBAL binlog_row_metadata = FULL; (MariaDB 10.5, MySQL 8.0.1 or later). Or "
        "exclude the column. The catalog prints a character beyond U+FFFF as a question mark.",
    ),
    manual(
        "TM-MY-042",
        "Another replica has the same server_id",
        "Give each capture and each replica of this server its own server_id: set `server_id` in the configuration. "
        "SHOW SLAVE HOSTS (SHOW REPLICAS) lists those in use.",
    ),
    manual(
        "TM-MY-043",
        "An event is larger than the server may send",
        "Run SET GLOBAL max_allowed_packet = 1073741824; and set it in the server's configuration too.",
    ),
    manual(
        "TM-MY-044",
        "An event of the log is unknown",
        "The server is probably newer than this connector: upgrade the connector.",
    ),
    manual(
        "TM-MY-045",
        "A captured table was changed in statement format",
        "The table is emptied and read again; nothing needs to be done for it. To prevent this, run SET GLOBAL "
        "binlog_format = ROW; and let no session set another format. Where such statements change no captured rows, "
        "`on_statement: warn` in connector.config only logs a warning; then `tidemark backfill` a table that one did "
        "change.",
    ),
    manual(
        "TM-MY-047",
        "A row in the log lacks the table's key",
        "The table is emptied and read again; nothing needs to be done for it. To prevent this, run SET GLOBAL "
        "binlog_row_image = FULL; and let no session set another value.",
    ),
    manual(
        "TM-MY-048",
        "The server lost events of its own log",
        "The log has a gap. The server's error log gives the reason. Capture into a new change log, which reads the "
        "tables again.",
    ),
    retry(
        "TM-MY-049",
        "An event of the log is damaged",
        "If the error persists, a binary log file on the server is damaged: check it with mysqlbinlog "
        "--verify-binlog-checksum, and capture into a new change log.",
    ),
    manual(
        "TM-MY-053",
        "The rows of a prepared XA transaction are no longer in the log",
        "The server has removed the log in which the transaction was prepared. Capture into a new change log, and keep "
        "binary logs for longer than XA transactions stay prepared.",
    ),
    retry(
        "TM-MY-054",
        "Another server answered",
        "Nothing needs to be done: when the connector starts again, it looks for its position on the new server.",
    ),
    manual(
        "TM-MY-055",
        "A position in the log is malformed",
        "The state was changed by hand, or belongs to another connector: use the state of the last checkpoint.",
    ),
    manual(
        "TM-MY-056",
        "Partitions were dropped or exchanged, and rows of theirs stay downstream",
        "The log has no events of these rows, and on_partition_gone is warn. Rows that are deleted before their partition "
        "is dropped or exchanged are deleted downstream, too. To have all of them go, run tidemark backfill with --truncate, or set "
        "on_partition_gone: reread, which reads the table again each time.",
    ),
    manual(
        "TM-MY-057",
        "The server's clock and this machine's differ",
        "Have both machines keep their time by the same time server (chrony, systemd-timesyncd). The lag is counted from "
        "the server's times of commits: it is wrong by the difference, and so are reads as of a time.",
    ),
    manual(
        "TM-MY-058",
        "A row in the log cannot be read",
        "The table is emptied and read again; nothing needs to be done for it. If the error comes back, a binary log file "
        "on the server is damaged, or the server is newer than this connector: check the file with mysqlbinlog "
        "--verify-binlog-checksum, and upgrade the connector.",
    ),
)
