"""What may be done to a captured table that keeps all values, and why: the other list in docs/postgres.md.

The catalogs show no statements. They show which rows of theirs were written, and whether a table is in another file. A
table is read again if it is in another file and a row of pg_attribute of a captured column was written since, and if a
column has another type. All else keeps the values of columns.
"""

from __future__ import annotations

from typing import NamedTuple


class KeepsValues(NamedTuple):
    """An entry of the list.

    Attributes:
        name: Its unique name.
        what: What is done, in Markdown.
        why: Why rows have the same values.
    """

    name: str
    what: str
    why: str


KEPT = (
    KeepsValues(
        "written_anew",
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
        "`VACUUM`, `ANALYZE`, `REINDEX`, `CREATE INDEX` and `DROP INDEX`, also `CONCURRENTLY`, `CREATE STATISTICS`",
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
    KeepsValues(
        "labels",
        "an enum gets more labels",
        "the others stay as they are",
    ),
    KeepsValues("columns", "columns are added without a default, and others dropped", "older rows have NULL"),
)
"""All of them."""


def markdown() -> str:
    """The list as docs/postgres.md has it."""
    rows = [f"| {each.what} | {each.why} |" for each in KEPT]
    return "\n".join(["| what is done | why values are the same |", "|---|---|", *rows])
