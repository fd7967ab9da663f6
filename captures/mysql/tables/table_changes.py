"""What may change of a captured table on MySQL and MariaDB, and what follows: docs/mysql.md shows this list."""

from __future__ import annotations

from captures.contract.table_changes import Consequence, TableChange

_STATEMENT = "the statement in the log"

CHANGES = (
    TableChange(
        "columns come and go",
        "`ADD COLUMN` whose value is NULL in older rows, `DROP COLUMN`, another place or a wider type of a column",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "nothing of a row",
        "indexes that are no key, partitions that are added or reorganized, comments, the engine's options",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "an excluded column is dropped",
        "`DROP COLUMN` of one that `exclude` or `hash` names",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "values are given",
        "`ADD COLUMN` with a default or NOT NULL, a type that converts values, the expression of a generated column",
        _STATEMENT,
        Consequence.WARNED,
    ),
    TableChange(
        "a name is used again",
        "a column gets another name (two that swap theirs); a new one gets the name of one that is gone",
        _STATEMENT,
        Consequence.READ_AGAIN,
    ),
    TableChange(
        "captured otherwise",
        "a column is no longer in `exclude`, or is hashed or no longer hashed",
        "the next start",
        Consequence.READ_AGAIN,
    ),
    TableChange(
        "the key",
        "the key's columns, their exact types, or what orders them (a collation, an enum's labels)",
        f"{_STATEMENT}; where it was made while the capture was away, the next start",
        Consequence.EMPTIED,
    ),
    TableChange(
        "rows go unsaid",
        "`ALTER IGNORE TABLE`, `REPAIR TABLE`",
        _STATEMENT,
        Consequence.EMPTIED,
    ),
    TableChange(
        "partitions",
        "partitions that are dropped, truncated, exchanged or converted, tablespaces that are discarded or imported",
        _STATEMENT,
        Consequence.EMPTIED,
    ),
    TableChange(
        "another table",
        "another table takes the name: `RENAME` and swaps of names, of two captured tables too, and at the end of "
        "gh-ost and pt-online-schema-change; `CREATE TABLE` after `DROP TABLE`; `CREATE OR REPLACE TABLE`",
        _STATEMENT,
        Consequence.EMPTIED,
    ),
    TableChange(
        "altered unlogged",
        "an ALTER in a session with `sql_log_bin = 0`, where `binlog_row_metadata` is not `FULL`",
        "the first rows of it in the log, or the next chunk",
        Consequence.EMPTIED,
    ),
    TableChange(
        "truncated",
        "`TRUNCATE TABLE`, which becomes what `truncate` says",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "a temporary table",
        "whatever is done to a temporary table of the same name",
        _STATEMENT,
        Consequence.NOTHING,
    ),
    TableChange(
        "gone",
        "`DROP TABLE`, `RENAME`, `DROP DATABASE`",
        f"{_STATEMENT}, and 30 seconds in which nothing takes the name",
        Consequence.SET_ASIDE,
        "TM-MY-007",
    ),
    TableChange(
        "history among the rows",
        "`ADD SYSTEM VERSIONING`; an engine that has no rows of its own",
        _STATEMENT,
        Consequence.SET_ASIDE,
        "TM-MY-007",
    ),
    TableChange(
        "no key",
        "`DROP PRIMARY KEY` where no unique index can be the key",
        _STATEMENT,
        Consequence.SET_ASIDE,
        "TM-MY-009",
    ),
    TableChange(
        "a reserved name",
        "a column that is called `_meta`",
        _STATEMENT,
        Consequence.SET_ASIDE,
        "TM-MY-017",
    ),
    TableChange(
        "a statement instead of rows",
        "a statement that a session logged in another format than `ROW`; see [below](#statements-instead-of-rows)",
        _STATEMENT,
        Consequence.SET_ASIDE,
        "TM-MY-045",
    ),
    TableChange(
        "a row without its key",
        "a row that a session logged with less than `binlog_row_image = FULL`, and without the key",
        "the row in the log",
        Consequence.SET_ASIDE,
        "TM-MY-047",
    ),
)
"""Every row of it has a test of the same name."""
