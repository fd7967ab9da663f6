"""Codes of the change log on disk."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
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
        "The event is kept whole in the collection _quarantine, and the capture goes on. For values to come, store the "
        "column as text: add the column to the table's text: entry in the capture file. Or change the column's type at "
        "the source.",
    ),
    ErrorCode(
        "TM-LOG-011",
        "A file of the change log cannot be read",
        Policy.MANUAL,
        "Give the user who runs this the right to read the log's directory, and see that it is mounted.",
    ),
    ErrorCode(
        "TM-LOG-012",
        "The change log has an older format",
        Policy.MANUAL,
        "Go on in a new log: move the log's directory away, or name another one in the capture file's log entry, and "
        "start the capture. A new log has no state, so the connector begins anew and backfills all tables. Tables that "
        "Spark keeps from the old log need another warehouse, or must be moved away too. The old log can be read by "
        "the version that wrote it.",
    ),
    ErrorCode(
        "TM-LOG-013",
        "The change log is gone",
        Policy.MANUAL,
        "Bring it back: mount its volume, or restore it, at the named path. Nothing was made in its place, since all "
        "tables would be read again. Only if that is wanted, remove the named file, and the capture begins anew.",
    ),
)
