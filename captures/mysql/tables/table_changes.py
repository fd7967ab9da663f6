"""The changes of a table that matter to its capture, and their consequences: the list in docs/mysql.md.

A clause that is in none of these, and in no entry of ``tidemark.captures.mysql.statements.keeping_clauses``, is
``NOT_UNDERSTOOD``.
"""

from __future__ import annotations

from tidemark.captures.contract import causes
from tidemark.captures.contract.table_changes import Consequence, TableChange

_STATEMENT = "the statement in the log"

COLUMNS = TableChange(
    "columns",
    "`ADD COLUMN` whose value is NULL in older rows, `DROP COLUMN`, another position of a column, a type that "
    "keeps all values: a longer `varchar`, a wider integer, more labels, a character set that has all "
    "characters of the earlier one, `NOT NULL` in a strict `sql_mode`",
    _STATEMENT,
    Consequence.NOTHING,
)
NO_VALUES = TableChange(
    "no_values",
    "clauses [that keep all values](#clauses-that-keep-all-values): indexes other than the key, constraints, "
    "comments, defaults, options, rebuilds, added or reorganized partitions",
    _STATEMENT,
    Consequence.NOTHING,
)
EXCLUDED_DROPPED = TableChange(
    "excluded_dropped", "`DROP COLUMN` of a column in `exclude` or `hash`", _STATEMENT, Consequence.NOTHING
)
COLUMN_CONSTANT = TableChange(
    "column_constant",
    "`ADD COLUMN` with a default that is a constant, or NOT NULL without a default",
    _STATEMENT,
    Consequence.NOTHING,
)
COLUMN_FOLLOWED = TableChange(
    "column_followed",
    "a column is renamed, or two swap names; a new column gets the name of a dropped one",
    _STATEMENT,
    Consequence.NOTHING,
)
COLUMN_VALUES = TableChange(
    "column_values",
    "`ADD COLUMN` with any other default (`UUID()`, `CURRENT_TIMESTAMP`, `AUTO_INCREMENT`), a type, length or "
    "character set that may convert values, removed or renamed labels, `NOT NULL` of a `timestamp` or without a strict "
    "`sql_mode`, `AUTO_INCREMENT` of a column that did not count up, a `char` that becomes another type under "
    "`PAD_CHAR_TO_FULL_LENGTH`, the expression of a generated column, or the type, character set or collation of a "
    "column that it is made from",
    _STATEMENT,
    Consequence.READ_AGAIN,
    avoid="Add the column with a constant default; or add another column, and fill it by UPDATE.",
)
INCLUDED = TableChange.of(
    causes.CONFIGURED,
    "a column is no longer in `exclude`, or is hashed or no longer hashed",
    "the next start",
)
PUT_BACK = TableChange.of(
    causes.PUT_BACK,
    "it was removed from the capture file and added again",
    "the next start",
)
KEY = TableChange.of(
    causes.KEY,
    "the key's columns, their exact types, or their order (a collation, an enum's labels)",
    f"{_STATEMENT}; if the capture was stopped then, the next start",
)
KEY_VALUES = TableChange.of(
    causes.KEY_VALUES,
    "values of the key, as of a column above; a column of the key that is dropped and added again, renamed, or "
    "swapped with another",
    _STATEMENT,
)
ROWS_WITHOUT_EVENTS = TableChange(
    "rows_without_events",
    "`ALTER IGNORE TABLE`, `REPAIR TABLE`; truncated or exchanged partitions, a table that becomes a partition, "
    "discarded or imported tablespaces",
    _STATEMENT,
    Consequence.EMPTIED,
    avoid="Remove rows by DELETE before a partition is truncated or exchanged, and leave ALTER IGNORE and REPAIR "
    "TABLE.",
    keys_stay=True,
)
PARTITION_REMOVED = TableChange.of(
    causes.PARTITION_REMOVED,
    "a partition is dropped, or becomes a table",
    _STATEMENT,
)
PARTITION_GONE = TableChange(
    "partition_gone",
    "the same with `on_partition_gone: warn`; its rows stay downstream",
    _STATEMENT,
    Consequence.WARNED,
    "TM-MY-056",
)
PARTITION_EXCHANGED = TableChange(
    "partition_exchanged",
    "a partition is exchanged with `on_partition_gone: warn`, and it is known [which rows it has](#partitions); those "
    "that it had stay downstream",
    _STATEMENT,
    Consequence.PART_READ,
    "TM-MY-056",
    avoid="Exchange a partition with an empty table, and insert its rows afterwards.",
)
NOT_UNDERSTOOD = TableChange(
    "not_understood",
    "a clause of `ALTER TABLE` that is in neither list, or a statement of another kind that names the table and is not "
    "known",
    _STATEMENT,
    Consequence.EMPTIED,
    avoid="Alter the table with one statement at a time, each in its usual form.",
)
MADE_AGAIN = TableChange.of(
    causes.MADE_AGAIN,
    "another table takes the name: `RENAME`, names that are swapped (also between captured tables, and at the end "
    "of gh-ost and pt-online-schema-change), `CREATE TABLE` after `DROP TABLE`, `CREATE OR REPLACE TABLE`",
    _STATEMENT,
)
WITHOUT_A_STATEMENT = TableChange(
    "without_a_statement",
    "an ALTER in a session with `sql_log_bin = 0`",
    "its next rows in the log, its next chunk, or the next start",
    Consequence.EMPTIED,
    avoid="Leave sql_log_bin on in sessions that alter captured tables.",
)
UNKNOWN_ROWS = TableChange(
    "unknown_rows",
    "without `binlog_row_metadata = FULL`: the same column is altered again, or the columns of rows are others than "
    "the catalog has, before the capture came to it",
    "the statement or the rows in the log",
    Consequence.EMPTIED,
    avoid="Set binlog_row_metadata to FULL, so that the log names the columns of its rows.",
)
ROLLED_BACK = TableChange(
    "rolled_back",
    "a transaction is rolled back, of which the log has rows: a server that stopped, or failed over, `ROLLBACK TO "
    "SAVEPOINT` with tables that have no transactions",
    "the log, at its end",
    Consequence.EMPTIED,
    avoid="Nothing avoids it: the source rolled back rows that its log had shown.",
    altered=False,
)
PREPARED_BEFORE = TableChange(
    "prepared_before",
    "an XA transaction ends that was prepared before the capture began, and the user may not see such ones",
    "its end in the log",
    Consequence.EMPTIED,
    avoid="End prepared transactions before a capture of their tables begins.",
    altered=False,
)
COUNTED_ROWS = TableChange.of(
    causes.COUNTED_ROWS,
    "it has no key, and it is not known whether its snapshot has a transaction",
    "the transaction in the log",
)
TRUNCATED = TableChange("truncated", "`TRUNCATE TABLE`: see `truncate`", _STATEMENT, Consequence.NOTHING)
TEMPORARY = TableChange(
    "temporary", "any statement on a temporary table of the same name", _STATEMENT, Consequence.NOTHING
)
ABSENT = TableChange(
    "absent",
    "`DROP TABLE`, `RENAME`, `DROP DATABASE`",
    f"{_STATEMENT}, and 30 seconds during which no table takes the name",
    Consequence.SET_ASIDE,
    "TM-MY-007",
)
STORAGE = TableChange(
    "storage",
    "`ADD SYSTEM VERSIONING`, until `DROP SYSTEM VERSIONING`; an engine that stores no rows",
    _STATEMENT,
    Consequence.SET_ASIDE,
    "TM-MY-007",
)
NO_KEY = TableChange(
    "no_key",
    "`DROP PRIMARY KEY` if no unique index can be the key",
    _STATEMENT,
    Consequence.SET_ASIDE,
    "TM-MY-009",
)
RESERVED_NAME = TableChange(
    "reserved_name", "a column with the name `_meta`", _STATEMENT, Consequence.SET_ASIDE, "TM-MY-017"
)
STATEMENT_WITHOUT_ROWS = TableChange(
    "statement_without_rows",
    "a statement that a session did not log in format `ROW`; see [below](#statements-instead-of-rows)",
    _STATEMENT,
    Consequence.SET_ASIDE,
    "TM-MY-045",
)
ROW_WITHOUT_KEY = TableChange(
    "row_without_key",
    "a row that a session logged without the key, with less than `binlog_row_image = FULL`",
    "the row in the log",
    Consequence.SET_ASIDE,
    "TM-MY-047",
)
ROW_UNREADABLE = TableChange(
    "row_unreadable",
    "a row whose end is not known: its bytes are not of the table's columns, or damaged",
    "the row in the log",
    Consequence.SET_ASIDE,
    "TM-MY-058",
)

CHANGES = tuple(each for each in list(globals().values()) if isinstance(each, TableChange))
"""All of them, in the order in which they are defined above."""
