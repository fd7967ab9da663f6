"""Codes of the change log on disk."""

from __future__ import annotations

from protocol.error_codes.model import listed

CODES = listed("""
TM-LOG-001 manual: There is no change log at this path
    Give the directory that holds tidemark.json: the log entry of the capture file.

TM-LOG-002 manual: A file of the change log is damaged
    Restore the named file from a copy of the log. Nothing was skipped or changed.

TM-LOG-003 manual: The change log has a newer format
    Upgrade tidemark to the version that wrote the log, or a later one.

TM-LOG-004 manual: A file of the change log is missing
    Restore the named file from a copy of the log. Never delete commits or segments by hand.

TM-LOG-005 manual: The log belongs to another capture
    Give each capture its own log: change log: or capture: in the capture file.

TM-LOG-006 manual: Another process writes this log
    Stop the other process, or let it continue and do not start a second one.

TM-LOG-007 manual: Another writer took over this log
    Another machine or container runs this capture: find it, and stop one of the two. What this one had not committed is
    not in the log; the other one reads it again from the source.

TM-LOG-008 retry: The change log cannot be written
    At the named path, free space, or fix the permissions or the mount. Nothing that was committed is lost, and the
    source keeps the rest.

TM-LOG-009 manual: A segment of the change log is corrupt or missing
    Restore the named file from a copy of the log. Nothing was skipped.

TM-LOG-010 manual: A value does not fit the column's type
    The event is kept whole in the collection _quarantine, and the capture continues. To store future values, add the
    column to the table's text: entry in the capture file, or change the column's type at the source.

TM-LOG-011 manual: A file of the change log cannot be read
    Give the user who runs this the right to read the log's directory, and check that it is mounted.

TM-LOG-012 manual: The change log has an older format
    Start a new log: move the log's directory away, or name another one in the capture file's log entry, and start the
    capture. A new log has no state, so all tables are backfilled again. Give the Spark tables kept from the old log
    another warehouse, or move them away too. The version that wrote the old log can still read it.

TM-LOG-013 manual: The change log has disappeared
    Mount its volume or restore it at the named path. No new log was created in its place, because that would read all
    tables again. If that is what you want, remove the named file: the capture then starts from the beginning.
""")
