"""The changes of a table that matter to its capture, and their consequences: the list in docs/mysql.md.

What is in none of these, and in no entry of ``tidemark.captures.mysql.statements.keeping_clauses``, is ``UNKNOWN``.
"""

from __future__ import annotations

from tidemark.captures.contract.table_changes import Consequence, TableChange

_STATEMENT = "the statement in the log"

VALUES = TableChange(
    "values are given",
    "`ADD COLUMN` with any other default (`UUID()`, `CURRENT_TIMESTAMP`, `AUTO_INCREMENT`), a type, length or "
    "character set that may convert values, removed or renamed labels, `NOT NULL` of a `timestamp` or without a strict "
    "`sql_mode`, `AUTO_INCREMENT` of a column that did not count up, a `char` that becomes another type under "
    "`PAD_CHAR_TO_FULL_LENGTH`, the expression of a generated column, or the type, character set or collation of a "
    "column that it is made from",
    _STATEMENT,
    Consequence.READ_AGAIN,
)
KEY_VALUES = TableChange(
    "values of the key",
    "any of these in a column of the key; a column of the key that is dropped and added again, renamed, or swapped "
    "with another",
    _STATEMENT,
    Consequence.EMPTIED,
)
UNKNOWN = TableChange(
    "not known",
    "a clause of `ALTER TABLE` that is in neither list, or a statement of another kind that names the table and is not "
    "known",
    _STATEMENT,
    Consequence.EMPTIED,
)
CHANGES = (
    TableChange(
        "columns come and go",
        "`ADD COLUMN` whose value is NULL in older rows, `DROP COLUMN`, another position of a column, a type that "
        "keeps all values: a longer `varchar`, a wider integer, more labels, a character set that has all "
        "characters of the earlier one, `NOT NULL` in a strict `sql_mode`",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "nothing of a row",
        "clauses [that keep all values](#clauses-that-keep-all-values): indexes other than the key, constraints, "
        "comments, defaults, options, rebuilds, added or reorganized partitions",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "an excluded column is dropped",
        "`DROP COLUMN` of a column in `exclude` or `hash`",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "a constant is added",
        "`ADD COLUMN` with a default that is a constant, or NOT NULL without a default",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "names change",
        "a column is renamed, or two swap names; a new column gets the name of a dropped one",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    VALUES,
    TableChange(
        "captured otherwise",
        "a column is no longer in `exclude`, or is hashed or no longer hashed",
        "the next start",
        Consequence.READ_AGAIN,
    ),
    TableChange(
        "put back",
        "it was removed from the capture file and added again",
        "the next start",
        Consequence.EMPTIED,
    ),
    TableChange(
        "the key",
        "the key's columns, their exact types, or their order (a collation, an enum's labels)",
        f"{_STATEMENT}; if the capture was stopped then, the next start",
        Consequence.EMPTIED,
    ),
    KEY_VALUES,
    TableChange(
        "rows go unsaid",
        "`ALTER IGNORE TABLE`, `REPAIR TABLE`",
        _STATEMENT,
        Consequence.EMPTIED,
    ),
    TableChange(
        "partitions",
        "dropped partitions, unless `on_partition_gone` is `warn`; truncated, exchanged or converted ones, discarded "
        "or imported tablespaces",
        _STATEMENT,
        Consequence.EMPTIED,
    ),
    UNKNOWN,
    TableChange(
        "another table",
        "another table takes the name: `RENAME`, names that are swapped (also between captured tables, and at the end "
        "of gh-ost and pt-online-schema-change), `CREATE TABLE` after `DROP TABLE`, `CREATE OR REPLACE TABLE`",
        _STATEMENT,
        Consequence.EMPTIED,
    ),
    TableChange(
        "altered unlogged",
        "an ALTER in a session with `sql_log_bin = 0`",
        "its next rows in the log, its next chunk, or the next start",
        Consequence.EMPTIED,
    ),
    TableChange(
        "truncated",
        "`TRUNCATE TABLE`: see `truncate`",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "a temporary table",
        "any statement on a temporary table of the same name",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "gone",
        "`DROP TABLE`, `RENAME`, `DROP DATABASE`",
        f"{_STATEMENT}, and 30 seconds during which no table takes the name",
        Consequence.SET_ASIDE,
        "TM-MY-007",
    ),
    TableChange(
        "history among the rows",
        "`ADD SYSTEM VERSIONING`, until `DROP SYSTEM VERSIONING`; an engine that stores no rows",
        _STATEMENT,
        Consequence.SET_ASIDE,
        "TM-MY-007",
    ),
    TableChange(
        "no key",
        "`DROP PRIMARY KEY` if no unique index can be the key",
        _STATEMENT,
        Consequence.SET_ASIDE,
        "TM-MY-009",
    ),
    TableChange(
        "a reserved name",
        "a column with the name `_meta`",
        _STATEMENT,
        Consequence.SET_ASIDE,
        "TM-MY-017",
    ),
    TableChange(
        "a statement instead of rows",
        "a statement that a session did not log in format `ROW`; see [below](#statements-instead-of-rows)",
        _STATEMENT,
        Consequence.SET_ASIDE,
        "TM-MY-045",
    ),
    TableChange(
        "a row without its key",
        "a row that a session logged without the key, with less than `binlog_row_image = FULL`",
        "the row in the log",
        Consequence.SET_ASIDE,
        "TM-MY-047",
    ),
)
"""Every row of it has a test of the same name."""
