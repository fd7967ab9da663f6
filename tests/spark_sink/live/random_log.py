"""A log of several tables to which everything happens that can, their kept tables, and what each must hold when."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.spark_sink.live.kept_base import fold, kept
from tests.spark_sink.log_builder import EPOCH, Event, LogBuilder, schema
from tests.spark_sink.replay import random_events, replay

KEY = ["k1", "k2"]
NARROW = {"k1": "bigint", "k2": "string", "name": "string", "note": "string"}
WIDE = {**NARROW, "extra": "double"}

State = set[tuple[Any, ...]]


@dataclass
class RandomLog:
    """What was made.

    Attributes:
        log: Of the tables.
        warehouse: Where they are kept.
        boundaries: Offsets at which commits end, from 0 on.
        widened: By collection, the offset from which its events have the column ``extra``.
    """

    log: LogBuilder
    warehouse: Path
    boundaries: list[int]
    widened: dict[str, int]

    def rows(self, collection: str, end: int) -> list[dict[str, Any]]:
        """What a table holds after all events below an offset, with all its columns and those of a kept table."""
        events = [(offset, event) for offset, event in self.log.events if event.table == collection and offset < end]
        snapshots = {offset for offset, event in events if event.snapshot}
        rows = [(row["_offset"], row) for row in replay(events, "id", ("id", *WIDE)).values()]
        return [{**row, "_commit_ts": None if offset in snapshots else self.time(offset)} for offset, row in rows]

    def state(self, collection: str, end: int) -> State:
        """The same, as a set."""
        return {tuple(row[name] for name in [*WIDE, "_offset", "_commit_ts"]) for row in self.rows(collection, end)}

    def columns(self, collection: str, end: int) -> dict[str, str]:
        """A table's own columns at an offset."""
        return WIDE if self.widened[collection] < end else NARROW

    def fold(self, collection: str, position: int) -> None:
        """Brings the kept table to a position."""
        own = self.columns(collection, position)
        fold(kept(self.log, self.warehouse, collection), own, KEY, self.rows(collection, position), position)

    def fold_at_random(self, chance: random.Random) -> None:
        """Folds each table up to three times, some never."""
        for collection in self.widened:
            for position in sorted(chance.sample(self.boundaries, chance.randrange(4))):
                self.fold(collection, position)

    def commit(self, *events: Event) -> None:
        self.log.commit(*events)
        self.boundaries.append(self.log.offset)

    def time(self, offset: int) -> datetime:
        """When the source committed an event, in UTC, as Spark gives it to Python."""
        commit = max(number for number, start in enumerate(self.boundaries[:-1]) if start <= offset)
        return (EPOCH + timedelta(seconds=commit)).replace(tzinfo=None)


def random_log(chance: random.Random, folder: Path, tables: int, commits: int) -> RandomLog:
    """Makes a log in which every commit has events of every table."""
    names = [f"public/t{number}" for number in range(tables)]
    log = LogBuilder(folder / "a log", *(schema(name, KEY, **NARROW) for name in names))
    widening = {name: chance.randrange(1, 2 * commits) for name in names}
    made = RandomLog(log, folder / "a lake", [0], {name: 1 << 60 for name in names})
    for commit in range(commits):
        batch: list[Event] = []
        for name in names:
            if widening[name] == commit:
                log.change_schema(schema(name, KEY, **WIDE))
                made.widened[name] = log.offset
            truncates = chance.choice([0.0, 0.0, 0.1])
            events = random_events(chance, chance.randrange(1, 9), keys=12, truncates=truncates, table=name)
            batch += [_placed(chance, event, wide=widening[name] <= commit) for event in events]
        chance.shuffle(batch)
        made.commit(*batch)
    return made


def _placed(chance: random.Random, event: Event, wide: bool) -> Event:
    """An event under a key of two columns, both of which may be null, and perhaps with the column that came later."""
    if event.op == "t":
        return event
    number = event.row["id"]
    row = {**event.row, "k1": number // 3 or None, "k2": [None, "x", "y"][number % 3]}
    if not wide or event.op == "d":
        return replace(event, row=row)
    if event.unchanged and chance.random() < 0.5:
        return replace(event, row=row, unchanged=(*event.unchanged, "extra"))
    return replace(event, row={**row, "extra": chance.random()})
