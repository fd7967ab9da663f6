"""What may be done to a captured table that keeps all values, and why: the other list in docs/postgres.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidemark.captures.contract.table_changes import Consequence


@dataclass(frozen=True, slots=True)
class KeepsValues:
    """An entry of the list.

    Attributes:
        name: Its unique name.
        what: What is done, in Markdown.
        why: Why rows have the same values.
    """

    consequence: ClassVar = Consequence.NOTHING
    code: ClassVar = ""

    name: str
    what: str
    why: str


LABELS_ADDED = KeepsValues("labels_added", "an enum gets more labels", "the others stay as they are")
COLUMN_ADDED = KeepsValues("column_added", "a column is added that is NULL in existing rows", "older events lack it")
COLUMN_CONSTANT = KeepsValues(
    "column_constant",
    "a column is added that has one value in all existing rows (`DEFAULT 7`, `DEFAULT now()`)",
    "the schema says which, to tidemark's runtime; under another one, rows are read again",
)
COLUMN_DROPPED = KeepsValues("column_dropped", "a column is dropped", "the others stay as they are")
COLUMN_FOLLOWED = KeepsValues(
    "column_followed",
    "a column is renamed, or two swap their names",
    "the schema says which is which, to tidemark's runtime; under another one, rows are read again",
)

KEPT = (
    KeepsValues(
        "rewritten",
        "`VACUUM FULL`, `CLUSTER`, `SET ACCESS METHOD`",
        "another file, but no row of `pg_attribute` is written; a scan by pages starts again",
    ),
    KeepsValues("moved", "`SET TABLESPACE`", "the same: the file is copied"),
    KeepsValues(
        "repacked",
        "pg_repack, for a table that the publication names; partitions and tables of `FOR ALL TABLES` are read again",
        "the same: it copies the rows, and swaps the files",
    ),
    KeepsValues(
        "maintained",
        "`VACUUM`, `ANALYZE`, `REINDEX`, `CREATE INDEX` and `DROP INDEX`, also `CONCURRENTLY`, `CREATE STATISTICS`; "
        "not `REINDEX CONCURRENTLY` of a key under REPLICA IDENTITY `FULL` that is a unique index and no constraint: "
        "it is another index then",
        "no row is written",
    ),
    KeepsValues(
        "constrained",
        "constraints that are added, also `NOT VALID`, validated, renamed or dropped; `SET NOT NULL`, `DROP NOT NULL`",
        "rows are only checked",
    ),
    KeepsValues(
        "defaults",
        "`SET DEFAULT` and `DROP DEFAULT`; a column that becomes an identity, or no longer is one",
        "they are for rows to come",
    ),
    KeepsValues(
        "stored",
        "`SET STORAGE`, `SET COMPRESSION`, `SET STATISTICS`, options of columns, storage parameters",
        "they are for rows to come, and for the planner",
    ),
    KeepsValues(
        "described",
        "comments, privileges, owners, triggers, policies, parents, names of constraints and partitions",
        "they are no part of rows",
    ),
    KeepsValues(
        "wider",
        "`varchar(10)` to `varchar(20)`, `varchar` or `text`, `text` to `varchar`, `numeric(8, 2)` to `numeric(10, 2)`",
        "the server leaves the rows as they are: it is the same file, and a type of the same kind",
    ),
    KeepsValues("collated", "another collation of a column that is not in the key", "it is how values are compared"),
    KeepsValues(
        "left_out",
        "whatever is done to columns that are excluded or generated, in a table that the publication names",
        "documents do not have them; the row of `pg_attribute` is not that of a captured column",
    ),
    LABELS_ADDED,
    COLUMN_ADDED,
    COLUMN_CONSTANT,
    COLUMN_DROPPED,
    COLUMN_FOLLOWED,
)
"""All of them."""


def markdown() -> str:
    """The list as docs/postgres.md has it."""
    rows = [f"| {each.what} | {each.why} |" for each in KEPT]
    return "\n".join(["| what is done | why values are the same |", "|---|---|", *rows])
