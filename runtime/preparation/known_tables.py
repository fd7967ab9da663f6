"""Keeps the tables of a capture as they were discovered when it was last opened.

A table that is no longer discovered, or is disabled now, stays bound: the connector sets it aside, and captures it
again when it returns.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidemark.protocol.changelog.known_tables import FILE, known_tables
from tidemark.protocol.changelog.models import Summary
from tidemark.protocol.messages import DiscoveredBinding
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing


def taken_out(log: Store, tables: Sequence[DiscoveredBinding]) -> list[str]:
    """The names of the tables that were captured when the capture was last opened, and are not among ``tables``."""
    now = {table.recommended_name for table in tables}
    return sorted(_name(table) for table in known_tables(log) if table.recommended_name not in now)


def put_back(log: Store, tables: Sequence[DiscoveredBinding], summary: Summary) -> list[str]:
    """The names of those of ``tables`` that were captured once, and not when the capture was last opened."""
    last = {table.recommended_name for table in known_tables(log)}
    return sorted(_name(table) for table in tables if table.recommended_name in summary.totals.keys() - last)


def _name(table: DiscoveredBinding) -> str:
    return table.recommended_name.replace("/", ".")


def keep_known(log: Store, tables: Sequence[DiscoveredBinding]) -> None:
    """Replaces the file, if its content changes.

    Raises:
        ChangeLogError: ``TM-LOG-008``.
    """
    data = msgspec.json.encode({"tables": tables}) + b"\n"
    with writing(log.where(FILE)):
        if not log.exists(FILE) or log.read(FILE) != data:
            log.replace(FILE, data)
