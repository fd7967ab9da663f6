"""What a table must hold after a sequence of events: the plainest program that can say it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from tests.spark_sink.log_builder import Event

Row = dict[str, Any]

COLUMNS = ("id", "name", "note")


def replay(
    events: Iterable[tuple[int, Event]], key: str | Sequence[str] = "id", columns: Sequence[str] = COLUMNS
) -> dict[Any, Row]:
    """The rows by key after the events, each with the ``_offset`` of its last change.

    Args:
        events: With their offsets.
        key: Name of the key's column, or names; then rows go by tuples.
        columns: All that the table ever had.
    """
    rows: dict[Any, Row] = {}
    for offset, event in sorted(events, key=lambda pair: pair[0]):
        if event.op == "t":
            rows.clear()
            continue
        place = event.row[key] if isinstance(key, str) else tuple(event.row[name] for name in key)
        if event.op == "d":
            rows.pop(place, None)
        else:
            before = rows.get(place, {})
            rows[place] = {
                **{c: before.get(c) if c in event.unchanged else event.row.get(c) for c in columns},
                "_offset": offset,
            }
    return rows


def random_events(chance: random.Random, count: int, *, keys: int, truncates: float = 0.0, table: str) -> list[Event]:
    """Events such as a table sees: rows come, change in part or in whole, go, come again; chunks of a backfill too."""
    events = []
    for _ in range(count):
        row = {"id": chance.randrange(keys), "name": f"name {chance.randrange(1000)}", "note": None}
        if chance.random() < 0.8:
            row["note"] = f"note {chance.randrange(1000)}"
        if chance.random() < truncates:
            events.append(Event("t", table=table))
            continue
        match chance.choice("ccsuuuuppppdd"):
            case "c":
                events.append(Event("c", row, table=table))
            case "s":
                events.append(Event("c", row, snapshot=True, table=table))
            case "u":
                events.append(Event("u", row, table=table))
            case "p":
                lacking = chance.choice([("note",), ("name",), ("name", "note")])
                carried = {name: value for name, value in row.items() if name not in lacking}
                events.append(Event("u", carried, unchanged=lacking, table=table))
            case _:
                events.append(Event("d", {"id": row["id"]}, table=table))
    return events
