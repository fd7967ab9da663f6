"""Causes of rereads that several databases share, and those that only the log and the engine know.

What a database alone can tell is in its own list of ``TableChange``.
"""

from __future__ import annotations

from tidemark.captures.contract.table_changes import Cause, Consequence

# The table was altered.

MADE_AGAIN = Cause(
    "made_again",
    Consequence.EMPTIED,
    "Change the table in place with ALTER TABLE, instead of creating another one with its name.",
)
KEY = Cause(
    "key",
    Consequence.EMPTIED,
    "Keep the key of the table, or set `key` in its entry of the capture file to columns that stay.",
)
KEY_VALUES = Cause(
    "key_values",
    Consequence.EMPTIED,
    "Leave the columns of the key as they are, and add other columns beside them.",
)
MADE_AGAIN_OR_KEY = Cause("made_again_or_key", Consequence.EMPTIED, f"{MADE_AGAIN.avoid} {KEY.avoid}")
PARTITION_REMOVED = Cause(
    "partition_removed",
    Consequence.EMPTIED,
    "Set `on_partition_gone` to `warn`: then rows of a partition that is gone stay downstream.",
    keys_stay=True,
)
UNLIKE_BEFORE = Cause(
    "unlike_before",
    Consequence.EMPTIED,
    "Add a column of the new type, fill it by UPDATE, and drop the old one.",
)

# The log or a scan cannot go on without the rows.

COUNTED_ROWS = Cause(
    "counted_rows", Consequence.EMPTIED, "Give the table a key: then a scan and the log can overlap.", altered=False
)
PARTIAL_ROWS = Cause(
    "partial_rows",
    Consequence.EMPTIED,
    "Let the log carry whole rows (REPLICA IDENTITY FULL), or change keys in smaller transactions.",
    altered=False,
)
LOST_POSITION = Cause(
    "lost_position",
    Consequence.EMPTIED,
    "Let the source keep its log for longer than a capture may be stopped. Do not reset it, nor drop its slot.",
    altered=False,
)
CONFIGURED = Cause(
    "included",
    Consequence.READ_AGAIN,
    "Decide about `exclude`, `hash` and `on_bad_value` before the table is captured.",
    altered=False,
    keys_stay=True,
)
CONDITION = Cause(
    "condition",
    Consequence.READ_AGAIN,
    "Decide about `where` before the table is captured; `tidemark backfill --where` reads some rows more.",
    altered=False,
    keys_stay=True,
)
PUT_BACK = Cause(
    "put_back",
    Consequence.EMPTIED,
    "Leave the table in the capture file; `tidemark pause` pauses its backfill.",
    altered=False,
)
CHANGES_PASSED = Cause(
    "changes_passed",
    Consequence.EMPTIED,
    "Fix a table that is set aside before its rows change: see the code of the warning.",
)
