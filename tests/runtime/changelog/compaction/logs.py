"""Logs with all that commits can say, for compaction, and all that readers can ask of a log."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, closed, document, order
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.compacted_commit import EDGE_DIGITS
from tidemark.protocol.changelog.log_start import LogStart
from tidemark.runtime.changelog.compaction.runs import RunLimits
from tidemark.runtime.changelog.events import segment_events
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.upkeep import Upkeep, UpkeepRules
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.spark_sink.source.followed_log import FollowedLog, Limits
from tidemark.spark_sink.tables.store_place import StorePlace

ITEMS = "public/items"
TRIMMED = Retain(recent=5)
SMALL = RunLimits(due=2, least=2, new=12, segments=60, most=60, events=400, recent=5, tier=3)


def write(log: LogWriter, chance: random.Random, commits: int) -> None:
    """Commits of two tables: rows of backfills and of the source's log, TRUNCATEs, other columns, and nothing."""
    numbered = log.summary.number
    orders, items = (log.bind(name, schema, ["id"]) for name, schema in _schemas(chance))
    for number in range(numbered + 1, numbered + 1 + commits):
        batch = log.begin()
        if chance.random() < 0.04:
            orders, items = (log.bind(name, schema, ["id"]) for name, schema in _schemas(chance))
        if chance.random() < 0.05:
            batch.announce(items)
        if chance.random() < 0.8:
            for _ in range(chance.randrange(1, 4)):
                rows = [order(chance.randrange(1000), op=chance.choice("cud")) for _ in range(chance.randrange(1, 20))]
                batch.add(orders, rows)
                if chance.random() < 0.3:
                    batch.add(items, [document(id=chance.randrange(50)) for _ in range(chance.randrange(1, 4))])
            if chance.random() < 0.05:
                batch.add(items, [document("t"), document(id=1)])
        state = {"n": number, "places": {str(number % 3): number}}
        log.commit(batch, state, chance.randrange(3))


def _schemas(chance: random.Random) -> list[tuple[str, Any]]:
    more = {"more": {"type": ["string", "null"]}} if chance.random() < 0.4 else {}
    orders = {**ORDER_SCHEMA, "properties": {**ORDER_SCHEMA["properties"], **more}}
    return [(ORDERS, orders), (ITEMS, closed(id={"type": "integer"}))]


def compact(log: LogWriter, limits: RunLimits = SMALL, grace: timedelta = timedelta()) -> int:
    """Compacts what can be, and returns how many commits were."""
    with looked_after(log, UpkeepRules(limits, grace)) as upkeep:
        return upkeep.compact(limits)


def trim(
    log: LogWriter, retain: Retain = TRIMMED, captured: Sequence[str] = (), grace: timedelta = timedelta()
) -> LogStart:
    """Removes what is not kept any more, and returns where the log begins."""
    with looked_after(log, UpkeepRules(SMALL, grace, retain, lambda: captured)) as upkeep:
        upkeep.retain()
    return log.summary.log_start


@contextmanager
def looked_after(log: LogWriter, rules: UpkeepRules) -> Iterator[Upkeep]:
    """What looks after a log that nobody else writes meanwhile, and in which nothing is damaged."""
    damaged: list[object] = []
    yield Upkeep(log, rules, lambda: _commit(log), damaged.append)
    assert not damaged


def _commit(log: LogWriter) -> None:
    log.commit(log.begin(), log.state, 0)


@dataclass(frozen=True)
class Positions:
    """Where readers of a log may stand: where commits end, and when they were made."""

    ends: list[int]
    times: list[Any]

    def since(self, start: LogStart) -> Positions:
        """Those of them that a log still has which begins there."""
        first = start.time
        return Positions(
            [end for end in self.ends if end >= start.offset],
            [time for time in self.times if first is None or time > first],
        )

    @classmethod
    def of(cls, log: ChangeLog, every: int) -> Positions:
        """Of every so-manieth commit, the last among them."""
        commits = list(log.commits())[::-1][::every]
        return cls(sorted({one.next_offset for one in commits}), [one.time for one in commits])


def answers(
    place: StorePlace, at: Positions, log: FollowedLog | None = None, first: int = 0
) -> Iterator[tuple[str, object]]:
    """All that readers ask of a log from an offset up to some commit, whatever its files are."""
    log = log or FollowedLog(place)
    last = at.ends[-1]
    for name in (ORDERS, ITEMS):
        rows = [row for one in log.segments(name, first, last) for row in segment_events(log, one)]
        yield f"rows of {name}", [row for row in rows if first <= row["_offset"] < last]
        for start, end in zip(at.ends[::3], at.ends[4::3], strict=False):
            found = [row for one in log.segments(name, start, end) for row in segment_events(log, one)]
            yield f"{name} {start}", [row["_offset"] for row in found if start <= row["_offset"] < end]
        for limits in (Limits(), Limits(events=30), Limits(events=7, quiet=3)):
            yield f"batches of {name} {limits}", list(_batches(log, limits, first, last, name))
    for end in at.ends:
        summary = log.summary_at(end)
        totals = {name: (one.events, one.fingerprint) for name, one in summary.totals.items()}
        yield f"totals at {end}", totals
        known = {
            name: [
                (one.number, one.begin, one.whole, one.events, one.fingerprints, one.ended, one.shown_until)
                for one in all_
            ]
            for name, all_ in summary.generations.items()
        }
        yield f"generations at {end}", known
        yield f"mark at {end}", (log.mark(end), log.edge_digest(end)[:EDGE_DIGITS] if end else "")
        yield f"mark inside {end}", log.mark(end + 1) if end + 1 not in at.ends else None
    for time in at.times:
        yield f"offset at {time}", (log.offset_at(time), log.offset_at(time + timedelta(microseconds=1)))


def _batches(log: FollowedLog, limits: Limits, position: int, last: int, name: str) -> Iterator[int]:
    while (end := log.cut(position, limits, last, name)) > position:
        yield end
        position = end
