"""The tables of a page in ``docs/`` that say what follows when a table changes."""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.captures.contract.table_changes import TableChange
from tidemark.captures.mysql.statements.keeping_clauses import Keeping


def markdown(changes: Iterable[TableChange]) -> str:
    """As the page must have it."""
    rows = []
    for change in changes:
        code = f" (`{change.code}`)" if change.code else ""
        rows.append(f"| {change.what} | {change.noticed} | {change.consequence.text}{code} |")
    return "\n".join(["| what changes | what detects it, and by when | consequence |", "|---|---|---|", *rows])


def kept(entries: Iterable[Keeping]) -> str:
    """The clauses that keep all values, and why."""
    rows = [f"| {entry.clauses} | {entry.why} |" for entry in entries]
    return "\n".join(["| clauses | why they keep all values |", "|---|---|", *rows])
