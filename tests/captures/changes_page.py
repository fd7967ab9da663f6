"""The table of a page in ``docs/`` that says what follows when a table changes."""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.captures.contract.table_changes import TableChange


def markdown(changes: Iterable[TableChange]) -> str:
    """As the page must have it."""
    rows = []
    for change in changes:
        code = f" (`{change.code}`)" if change.code else ""
        rows.append(f"| {change.what} | {change.noticed} | {change.consequence.text}{code} |")
    return "\n".join(["| what changes | what detects it, and by when | consequence |", "|---|---|---|", *rows])
