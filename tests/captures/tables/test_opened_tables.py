"""What a source hands to the engine of its tables."""

from __future__ import annotations

from dataclasses import replace

from tidemark.captures.contract.source import OpenedTable, ScanMethod
from tidemark.captures.tables.opened_tables import OpenedTables


def opened(binding: int) -> OpenedTable:
    return OpenedTable(binding, f"s.t{binding}", f"t{binding}", {}, "1", ("id",), ScanMethod.KEY, 0, None)


def test_a_table_is_handed_over_once_and_as_it_is_then() -> None:
    tables = OpenedTables(map(opened, range(3)))
    known = list(tables.now)
    assert tables.hand_over() == []
    tables.put(replace(opened(2), identity="2"))
    tables.put(replace(opened(2), identity="3"))
    tables.put(replace(opened(0), identity="2"))
    assert known == list(map(opened, range(3)))  # Nothing changes behind the back of who took them before.
    assert [(table.binding, table.identity) for table in tables.hand_over()] == [(0, "2"), (2, "3")]
    assert tables.hand_over() == []
    assert [table.identity for table in tables.now] == ["2", "1", "3"] and tables[2].identity == "3"
