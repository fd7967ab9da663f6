"""The changes of a table that matter to its capture, and their consequences: the list in docs/postgres.md."""

from __future__ import annotations

from tidemark.captures.contract import causes
from tidemark.captures.contract.table_changes import Consequence, TableChange

LOOK_SECONDS = 3.0
"""How often the catalogs are asked whether tables are still what they were."""

_LOOKED_AT = f"the catalogs, within {LOOK_SECONDS:.0f} s, and when the capture opens"
_BEFORE_CHUNK = f"a chunk before its first row; {_LOOKED_AT}"
_AROUND_CHUNK = f"a chunk before its first row and after its last; {_LOOKED_AT}"
_LOG_TOO = f"the log with the next change of a row; {_BEFORE_CHUNK}"

ABSENT = TableChange(
    "absent", "It is dropped, renamed, or moved to another schema", _LOOKED_AT, Consequence.SET_ASIDE, "TM-PG-007"
)
MADE_AGAIN = TableChange.of(
    causes.MADE_AGAIN,
    "Another table has its name: it was created again, or names were swapped",
    _LOG_TOO,
)
STORAGE = TableChange(
    "storage",
    "It is a view, a foreign table, or `UNLOGGED`, or a partition is `UNLOGGED`",
    _LOOKED_AT,
    Consequence.SET_ASIDE,
    "TM-PG-035",
)
UNLOGGED_AND_BACK = TableChange(
    "unlogged_and_back",
    "`SET UNLOGGED`, then `SET LOGGED`, which the server allows if all tables or a schema are published, and for "
    "partitions; or a partition is truncated on its own; or anything else writes all rows of these to another file, "
    "and no row shows that it is older",
    _LOOKED_AT,
    Consequence.EMPTIED,
    avoid="Leave the table and its partitions LOGGED, and remove rows by DELETE, or by TRUNCATE of the whole table.",
    keys_stay=True,
)
REWRITTEN_BY_ALTER = TableChange(
    "rewritten_by_alter",
    "The same, and the [event trigger](#the-event-trigger-on-rewrites) says that an ALTER TABLE rewrote the table or a "
    "partition, which hides whether rows were lost",
    f"the log, where that was committed; {_LOOKED_AT}",
    Consequence.EMPTIED,
    avoid="Add a column of the new type, and fill it by UPDATE; leave the access method of partitions as it is.",
    keys_stay=True,
)
PARTITION_JOINED = TableChange(
    "partition_joined",
    "A partition that has rows already is attached",
    _LOOKED_AT,
    Consequence.PART_READ,
    avoid="Attach a partition while it is empty, and insert its rows afterwards.",
)
PARTITION_BACK = TableChange(
    "partition_back",
    "A partition is detached, and attached again",
    _LOOKED_AT,
    Consequence.EMPTIED,
    avoid="Do not attach a partition again: insert its rows into the table.",
    keys_stay=True,
)
PARTITION_GONE = TableChange(
    "partition_gone",
    "A partition is detached or dropped; its rows stay downstream",
    _LOOKED_AT,
    Consequence.WARNED,
    "TM-PG-044",
)
PARTITION_REMOVED = TableChange.of(
    causes.PARTITION_REMOVED,
    "The same with `on_partition_gone: reread`",
    _LOOKED_AT,
)
REWRITTEN = TableChange(
    "rewritten",
    "`VACUUM FULL`, `CLUSTER` or an ALTER TABLE rewrites it while it is read by pages",
    _BEFORE_CHUNK,
    Consequence.BEGUN_AGAIN,
    avoid="Run VACUUM FULL and CLUSTER when the backfill is done, or set `scan: key` if the table has a key.",
)
IDENTITY = TableChange(
    "identity",
    "The replica identity of the table or of a partition does not have the key: `NOTHING`, `DEFAULT` without a "
    "primary key, an index of other columns or a dropped index",
    f"{_LOOKED_AT}; `check`",
    Consequence.SET_ASIDE,
    "TM-PG-018",
)
KEY = TableChange.of(
    causes.KEY,
    "Another key; or another primary key or unique index of the same columns, if the table or a partition has, or had "
    "meanwhile, REPLICA IDENTITY `FULL`: rows may have changed while there was none",
    _LOG_TOO,
)
UNPUBLISHED = TableChange(
    "unpublished", "The publication no longer has it", _LOOKED_AT, Consequence.SET_ASIDE, "TM-PG-011"
)
PUBLISHED_AGAIN = TableChange(
    "published_again",
    "It left the publication, or a published schema, and came back; or it was a partition for a while, and its rows "
    "changed",
    _LOOKED_AT,
    Consequence.EMPTIED,
    avoid="Leave the table in the publication, and attach it to no other; `tidemark pause` pauses its backfill.",
    keys_stay=True,
)
IN_PART = TableChange(
    "in_part",
    "The publication has a row filter or column list for it, lacks a kind of change, or publishes partitions by their "
    "own names",
    f"{_LOOKED_AT}; `check`",
    Consequence.SET_ASIDE,
    "TM-PG-011",
)
OPTIONS = TableChange(
    "options",
    "The publication's options were changed (`ALTER PUBLICATION … SET`), and it publishes the whole table again",
    _LOOKED_AT,
    Consequence.EMPTIED,
    avoid="Leave the options of the publication as they are.",
    keys_stay=True,
)
PRIVILEGES = TableChange(
    "privileges",
    "The user may no longer read it; its changes are still captured",
    _LOOKED_AT,
    Consequence.WARNED,
    "TM-PG-008",
)
COLUMN_FILLED = TableChange(
    "column_filled",
    "A column is added that has values of its own in each existing row (`DEFAULT random()`, an identity), or the one "
    "value of all is not known: they were rewritten since, or it is bad, hashed, composite, or JSON with spaces",
    _LOG_TOO,
    Consequence.READ_AGAIN,
    avoid="Add the column with a constant default, and set other values by UPDATE.",
)
COLUMN_MADE_AGAIN = TableChange(
    "column_made_again",
    "A column is dropped, another is added with its name and type, and rows change before the catalogs are compared: "
    "the log does not tell which of the two they have",
    _BEFORE_CHUNK,
    Consequence.READ_AGAIN,
    avoid="Give a new column a name that the table did not have.",
)
COLUMN_RENAMED = TableChange(
    "column_renamed",
    "A column is renamed, and `exclude`, `hash` or `on_bad_value` has one of the names; or columns are renamed, added "
    "and dropped so often, while rows change, that the log does not tell which columns they have",
    _LOG_TOO,
    Consequence.READ_AGAIN,
    avoid="Do not rename columns that `exclude`, `hash` or `on_bad_value` name, and rename others once.",
)
COLUMN_WRITTEN = TableChange(
    "column_written",
    "A column has another type, or the table is in another file and the row of a column in `pg_attribute` was written "
    "since (`USING`)",
    _LOG_TOO,
    Consequence.READ_AGAIN,
    avoid="Add a column of the new type, and fill it by UPDATE; use UPDATE alone in place of `USING`.",
)
COLUMN_REWRITTEN = TableChange(
    "column_rewritten",
    "The same, and the [event trigger](#the-event-trigger-on-rewrites) says that an ALTER TABLE rewrote the table for "
    "a column",
    f"the log, where that was committed; {_LOOKED_AT}",
    Consequence.READ_AGAIN,
    avoid=COLUMN_WRITTEN.avoid,
)
KEY_ORDER = TableChange(
    "key_order",
    "A column of the key has another collation: a scan by key goes in its order",
    _BEFORE_CHUNK,
    Consequence.READ_AGAIN,
    avoid="Leave the collation of the key as it is, and add an index with the other one.",
)
EXPRESSION_DROPPED = TableChange(
    "expression_dropped",
    "A generated column, which is left out, becomes an ordinary column (`DROP EXPRESSION`)",
    _LOG_TOO,
    Consequence.READ_AGAIN,
    avoid="Add an ordinary column, and fill it by UPDATE.",
)
INCLUDED = TableChange(
    "included",
    "A column is no longer in `exclude`, or is hashed or no longer hashed",
    "the capture, when it opens",
    Consequence.READ_AGAIN,
    avoid="Decide about `exclude` and `hash` before the table is captured.",
)
LABELS_RENAMED = TableChange(
    "labels_renamed",
    "A label of an enum is renamed; or one is added, where the column has ranges of the enum",
    _AROUND_CHUNK,
    Consequence.READ_AGAIN,
    avoid="Add a label, and change the rows that have the old one by UPDATE.",
)
ATTRIBUTES = TableChange(
    "attributes",
    "Attributes of a composite type are added, dropped or renamed",
    _AROUND_CHUNK,
    Consequence.READ_AGAIN,
    avoid="Add a column of another composite type, and fill it by UPDATE.",
)
KEY_VALUES = TableChange.of(
    causes.KEY_VALUES,
    "One of these happens to a column of the key: the rows have keys downstream that no longer exist",
    "as above",
)
PUT_BACK = TableChange.of(
    causes.PUT_BACK,
    "It was missing from the capture file for a while",
    "the capture, when it opens",
)

CHANGES = tuple(each for each in list(globals().values()) if isinstance(each, TableChange))
"""Every change that matters, in the order in which they are defined above.

What is not among them keeps all values: docs/postgres.md has a list of that, too.
"""
