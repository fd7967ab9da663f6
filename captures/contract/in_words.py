"""What happens to tables, for people. Messages say it; the state and status lines have the names as well."""

from __future__ import annotations

IN_WORDS = {
    # Several databases.
    "absent": "no table has its name",
    "changes_passed": "its rows changed while it was set aside",
    "condition": "its `where` is another one",
    "counted_rows": "it has no key, and it is not known which of its changes a scan had seen",
    "included": "a column is excluded or hashed no longer, or is hashed from now on",
    "key": "it has another key",
    "key_values": "values of its key may have changed without events",
    "lost_position": "the source's log does not go on from where the capture had come to",
    "made_again": "another table has its name",
    "made_again_or_key": "another table has its name, or it has another key",
    "partial_rows": "keys changed in too many rows of which the log has a part only",
    "partition_gone": "a partition is no part of it any more, and its rows stay downstream",
    "partition_removed": "a partition is no part of it any more",
    "put_back": "it was missing from the capture file for a while",
    "storage": "it is stored in a way of which the log has no changes",
    "unlike_before": "the type of a column does not go with the earlier one",
    # PostgreSQL.
    "attributes": "a composite type has other attributes",
    "column_filled": "a column was added with values that the log does not have",
    "column_made_again": "a column was dropped, and another one was added with its name",
    "column_renamed": "a column was renamed, and it has to be handled in another way, or cannot be told from others",
    "column_rewritten": "ALTER TABLE wrote new values of a column",
    "column_written": "ALTER TABLE may have written new values of a column",
    "expression_dropped": "a generated column became an ordinary one",
    "identity": "its replica identity does not have the key",
    "in_part": "the publication has a part of its changes only",
    "key_order": "a column of its key has another collation",
    "labels_renamed": "a label of an enum was renamed",
    "options": "options of the publication were changed",
    "partition_back": "a partition was detached, and attached again",
    "partition_joined": "a partition was attached that had rows already",
    "privileges": "the user may not read it any more",
    "published_again": "it left the publication, or was a partition of another table, and came back",
    "rewritten": "its rows were written to another file while they were read by pages",
    "rewritten_by_alter": "ALTER TABLE wrote it to another file, which hides whether rows were lost",
    "unlogged_and_back": "it may have been changed without the log: it was UNLOGGED, or a partition was truncated",
    "unpublished": "the publication does not have it any more",
    # MySQL and MariaDB.
    "column_values": "a statement may have written new values of a column",
    "no_key": "no index can be its key",
    "not_understood": "a statement was not understood",
    "partition_exchanged": "a partition was exchanged",
    "prepared_before": "a transaction ended that had been prepared before the capture began",
    "reserved_name": "a column has a name that is reserved",
    "rolled_back": "rows that the log had shown were rolled back",
    "row_unreadable": "the log has a row whose end is not known",
    "row_without_key": "the log has a row without its key",
    "rows_without_events": "rows may have come or gone without events",
    "statement_without_rows": "the log has a statement in place of the rows that it changed",
    "unknown_rows": "the log does not say which columns its rows have",
    "without_a_statement": "it was altered without a statement in the log",
}
"""By name of a ``Cause`` or a ``TableChange``. The columns or partitions follow in brackets."""


def in_words(name: str, columns: str = "") -> str:
    """What happened, with the names of the columns or partitions to which it did."""
    return f"{IN_WORDS[name]} ({columns})" if columns else IN_WORDS[name]
