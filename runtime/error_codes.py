"""Codes of commands, of the connectors that the runtime runs, and of the writer of the change log."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual, retry

CODES = (
    manual(
        "TM-CFG-005",
        "An option of a table does not fit the table",
        "Name columns that the table has, and keep the key's columns.",
    ),
    manual(
        "TM-CFG-010",
        "The metrics cannot be served",
        "Give metrics.listen in the capture file another address of this machine, HOST:PORT, that no other process has.",
    ),
    manual(
        "TM-CFG-011",
        "There is nobody to ask",
        "Read the list above. Add --yes to remove without a question.",
    ),
    manual(
        "TM-CFG-012",
        "A notification has no address",
        "Give notify.to.url in the capture file a URL that begins with http:// or https://, or use a command.",
    ),
    manual(
        "TM-CFG-006",
        "A file already exists",
        "Give another path, or move the file away.",
    ),
    manual(
        "TM-CFG-007",
        "The change log has no such table or place",
        "'tidemark status LOG' lists the tables of a log. --from takes an offset, a time in ISO 8601, earliest or "
        "latest.",
    ),
    manual(
        "TM-RUN-001",
        "The connector cannot be started",
        "Check connector.command in the capture file: the program must exist and be executable.",
    ),
    retry(
        "TM-RUN-002",
        "The connector failed",
        "Read the connector's log lines above; LOG_LEVEL=debug shows more of them.",
    ),
    retry(
        "TM-RUN-003",
        "The connector was killed",
        "Something outside ended the connector's process, often a lack of memory. Nothing committed is lost.",
    ),
    retry(
        "TM-RUN-004",
        "The connector ended too early",
        "It exited without an error before its output was complete. What was not committed is read again.",
    ),
    manual(
        "TM-RUN-005",
        "The connector broke the protocol",
        "Report it to the author of the connector. None of its output since the last commit was kept.",
    ),
    manual(
        "TM-RUN-006",
        "The connector speaks another version of the protocol",
        "Use a connector of protocol version 3032023 with the JSON codec.",
    ),
    manual(
        "TM-RUN-007",
        "No Docker engine is available",
        "Start Docker, or set DOCKER_HOST, and check that 'docker info' works for this user. Or run the connector with "
        "connector.command instead of connector.image.",
    ),
    manual(
        "TM-RUN-008",
        "The connector's image cannot be used",
        "Check that 'docker pull' finds the image. 'make images' builds this project's images.",
    ),
    retry(
        "TM-RUN-009",
        "The Docker engine failed",
        "'docker info' says whether the engine is running, and its own log what it did. If the message names a network, "
        "connector.network must be one that 'docker network ls' lists.",
    ),
    manual(
        "TM-RUN-010",
        "The connector fails repeatedly",
        "Every attempt ended without a commit. Fix the cause of the last failure, then run the capture again: it "
        "resumes from the last commit.",
    ),
    retry(
        "TM-RUN-011",
        "The connector does not answer",
        "It took longer than the limit for this request. Check that the source is reachable and not overloaded.",
    ),
    manual(
        "TM-RUN-013",
        "The operating system refused an operation",
        "Check the space, the permissions and the device of the named file. Nothing committed is lost.",
    ),
    manual(
        "TM-RUN-014",
        "An unexpected error",
        "This is a defect of tidemark. Run the same command with LOG_LEVEL=debug to see where it happened, and report "
        "it. Nothing committed is lost.",
    ),
    manual(
        "TM-RUN-016",
        "The connector accepts no commands while it runs",
        "Edit the capture file instead: 'backfill: 1' under a table reads it again, and a table without an entry is not "
        "captured. The command waits until a connector accepts it.",
    ),
    retry(
        "TM-RUN-017",
        "The connector does not exit when asked to",
        "It is stopped, and opened again from the last commit. A connector must end its session when its stdin ends.",
    ),
    manual(
        "TM-RUN-018",
        "The connector has no plan",
        "A plan needs one of this project's connectors. 'tidemark discover FILE' lists the tables of any connector.",
    ),
    retry(
        "TM-RUN-019",
        "The connector has stopped sending output",
        "It hangs: it is stopped, and opened again from the last commit. If it is only slow, raise connector.silence in "
        "the capture file; 0s turns this off.",
    ),
    manual(
        "TM-RUN-020",
        "A table has changed so that it must be read again, and the connector cannot be asked to",
        "Count 'backfill' in the table's entry in the capture file up. Its events of the meantime are in the log, in no "
        "table of its rows.",
    ),
    manual(
        "TM-RUN-021",
        "The connector does not say what it made",
        "'tidemark remove' needs one of this project's connectors, of this version. Drop by hand what another made.",
    ),
    manual(
        "TM-RUN-022",
        "The log will soon fill its disk",
        "Free space, or move the log to a larger disk: stop the capture, copy the folder, set log: in the capture file, "
        "and start it again.",
    ),
    manual(
        "TM-RUN-023",
        "A table has changed while the capture did not run",
        "Start the capture: it follows the change as its log shows it. 'tidemark plan FILE' says whether the table is "
        "read again for that, and what it costs.",
    ),
    manual(
        "TM-RUN-024",
        "The capture does not run as it should",
        "If it does not run, start it with 'tidemark capture FILE': until then its source retains its log, and Spark "
        "gets nothing new. If its source is away, its connector is silent or has failed, or its log cannot be written, it "
        "goes on by itself once that is over: look at the error. If it does not answer, end its process and start it "
        "again; nothing that was committed is lost.",
    ),
    manual(
        "TM-RUN-025",
        "The source will soon drop the capture's position",
        "Have the capture run and catch up. If it runs, look at its lag: a long transaction, a slow disk or an object "
        "store that refuses requests may hold it up. Or raise the source's limit (max_slot_wal_keep_size, or the time "
        "that binary logs are kept).",
    ),
    manual(
        "TM-RUN-026",
        "A table in Spark is far behind the log",
        "Run 'tidemark materialize FILE', or look why the one that should run does not.",
    ),
    manual(
        "TM-RUN-027",
        "A table in Spark has more than the log",
        "The log is an older copy, or another one. Bring the newer one back. Or rebuild the table from the log as it is: "
        "tidemark materialize FILE --rebuild TABLE.",
    ),
    manual(
        "TM-RUN-028",
        "A consumer of the log was not seen for long",
        "Start it again. Or remove it, if it is gone for good: tidemark log consumers FILE --remove NAME. Until then a log "
        "with the entry retain keeps all events that it has not read.",
    ),
    retry(
        "TM-RUN-029",
        "The capture does not run",
        "Its rows are read by the running capture: start tidemark capture FILE, and give the command again. It continues "
        "where it was.",
    ),
    manual(
        "TM-RUN-030",
        "Rows differ from the source",
        "'tidemark verify FILE --table TABLE' names their keys, and with --repair has these rows read again. It is a "
        "defect of tidemark or of the source's log: please report it.",
    ),
    manual(
        "TM-RUN-031",
        "The connector does not know the command",
        "Only a connector that says so brings the rows of a verification, and reads rows again by their keys: use a newer "
        "version of the connector, or compare and read its tables in another way. The command was taken back.",
    ),
    manual(
        "TM-RUN-032",
        "Rows that differ were not read again",
        "Follow what the message says of each table, and verify it again.",
    ),
    manual(
        "TM-LOG-005",
        "The log belongs to another capture",
        "Give each capture its own log: change log: in the capture file. If the capture was renamed, give it its old "
        "name back under capture:. Under another name and with another log it is a new capture: all its tables are read "
        "again, and what the source retains for the old one, such as a replication slot, fills its disk until it is "
        "dropped.",
    ),
    manual(
        "TM-LOG-006",
        "Another process writes this log",
        "Stop the other process, or let it continue and do not start a second one.",
    ),
    manual(
        "TM-LOG-007",
        "Another writer took over this log",
        "Another machine or container runs this capture: find it, and stop one of the two. What this one had not "
        "committed is not in the log; the other one reads it again from the source.",
    ),
    retry(
        "TM-LOG-008",
        "The change log cannot be written",
        "At the named path, free space, or fix the permissions or the mount. Nothing that was committed is lost, and "
        "the source keeps the rest.",
    ),
    manual(
        "TM-CFG-013",
        "A folder has no capture file",
        "Name a capture file, or a folder with capture files: their names end with .yaml or .yml.",
    ),
    manual(
        "TM-LOG-014",
        "The object store is not fit for a change log",
        "Take a store whose conditional writes (If-None-Match) are atomic: of several that create one object, one must "
        "succeed. Those of the large clouds are. Nothing was written into the log.",
    ),
    retry(
        "TM-LOG-015",
        "Another capture writes the change log",
        "Stop that capture. If it was killed, try again in half a minute. If you know that it is dead, give --take-over: "
        "should it live after all, it fails at its next commit.",
    ),
    manual(
        "TM-LOG-016",
        "The place of a copy holds something else",
        "Copy the log into an empty place, or onto an earlier copy of the same log.",
    ),
    manual(
        "TM-LOG-010",
        "A value does not fit the column's type",
        "The event is kept whole in the collection _quarantine, and the capture continues. To store future values, add "
        "the column to the table's text: entry in the capture file, or change the column's type at the source.",
    ),
    manual(
        "TM-LOG-013",
        "The change log has disappeared",
        "Mount its volume or restore it at the named path. No new log was created in its place, because that would read "
        "all tables again. If that is what you want, remove the named file: the capture then starts from the beginning.",
    ),
)
