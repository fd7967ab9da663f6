"""Codes of a change log that is read."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual, retry

CODES = (
    manual(
        "TM-LOG-001",
        "There is no change log at this path",
        "Give the directory that holds tidemark.json: the log entry of the capture file.",
    ),
    manual(
        "TM-LOG-002",
        "A file of the change log is damaged",
        "Restore the named file from a copy of the log. Nothing was skipped or changed.",
    ),
    manual(
        "TM-LOG-003",
        "The change log has a newer format",
        "Upgrade tidemark to the version that wrote the log, or a later one.",
    ),
    manual(
        "TM-LOG-004",
        "A file of the change log is missing",
        "Restore the named file from a copy of the log. Never delete commits or segments by hand.",
    ),
    manual(
        "TM-LOG-009",
        "A segment of the change log is corrupt or missing",
        "Restore the named file from a copy of the log. Nothing was skipped. A reader that had planned before the log was "
        "compacted only needs to begin again.",
    ),
    manual(
        "TM-LOG-011",
        "A file of the change log cannot be read",
        "Give the user who runs this the right to read the log's directory, and check that it is mounted.",
    ),
    retry(
        "TM-LOG-017",
        "The object store of the change log does not answer",
        "Check that its endpoint can be reached from here. It was asked again for a minute. Nothing is lost, and the same "
        "command goes on.",
    ),
    manual(
        "TM-LOG-018",
        "The change log does not have these events any more",
        "They were removed, as the capture file's retain entry asks. Begin with what the log has: its first events, or "
        "those of the table's last generation. A reader that registers as a consumer keeps what it needs.",
    ),
    manual(
        "TM-LOG-019",
        "A consumer of the change log cannot be registered or removed",
        "Give the user who reads the log the right to write its folder consumers. Or do not name a consumer: then the "
        "log does not wait for this reader.",
    ),
    manual(
        "TM-LOG-012",
        "The change log has an older format",
        "Start a new log: move the log's directory away, or name another one in the capture file's log entry, and start "
        "the capture. A new log has no state, so all tables are backfilled again. Give the Spark tables kept from the "
        "old log another warehouse, or move them away too. The version that wrote the old log can still read it.",
    ),
)
