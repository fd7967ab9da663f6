"""Whatever happens to tables, whenever they are folded and by whichever way: they are what the events say."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from tests.examples import sample
from tests.spark_sink.log_builder import Event
from tests.spark_sink.pipeline.histories import History
from tests.spark_sink.pipeline.kept_lake import KeptLake
from tidemark.spark_sink.changes.key_order import Place
from tidemark.spark_sink.changes.sources import SourceGroup
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.file_sizes import FileSizes
from tidemark.spark_sink.parts import apply
from tidemark.spark_sink.parts.part_plan import Part, plan_part
from tidemark.spark_sink.parts.ranges import KeyRange, file_groups, key_ranges
from tidemark.spark_sink.pipeline import keep as keeping
from tidemark.spark_sink.run.settings import PartLimits
from tidemark.spark_sink.tables.kept_tables import Target
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from tidemark.spark_sink.run.settings import Way

logger = logging.getLogger(__name__)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYS = {
    "a/numbers": {"id": "bigint"},
    "a/texts": {"the.té'xt `": "string"},
    "a/pairs": {"tenant": "string", "day": "date"},
    "a/nullable": {"tenant": "string", "number": "decimal(12,2)"},
    "a/times": {"flag": "boolean", "at": "timestamp"},
    "a/unstated": {"measure": "double", "hash": "binary"},
}

ROUNDS: Sequence[tuple[Way | None, str]] = (
    ("rewrite", "current"),
    ("task", "history"),
    (None, "current"),
    (None, "current"),
)


TURNS = ("", "begin", "end", "")
TOLD = ("a/numbers", "a/pairs", "a/unstated")
"""Tables of which the log tells which column is which."""

KEPT_UP = "a/numbers"
"""A table that takes these turns in the last commit of each round, and is not read again otherwise."""


class Seen:
    """What was planned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: list[Part] = []
        self.ranges: list[list[KeyRange]] = []
        self.sampled = 0

        def planned(*arguments: Any) -> Part:
            self.parts.append(plan_part(*arguments))
            return self.parts[-1]

        def cut(groups: Sequence[SourceGroup], sampled: Sequence[Place], *more: int) -> list[KeyRange]:
            self.ranges.append(key_ranges(groups, sampled, *more))
            self.sampled += bool(sampled)
            return self.ranges[-1]

        monkeypatch.setattr(keeping, "plan_part", planned)
        monkeypatch.setattr(apply, "key_ranges", cut)


def test_tables_are_what_the_events_say_whenever_and_however_they_are_folded(
    lake: KeptLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, __name__)
    small = {"limits": PartLimits(12_000, 12_000, 8_000, 4_000), "file_sizes": FileSizes(smallest=3_000)}
    seen = Seen(monkeypatch)
    seed = os.environ.get("SEED") or os.urandom(4).hex()
    logger.info("random histories of SEED=%s", seed)  # shown where the test fails
    chance = random.Random(seed)
    others = sorted(KEYS.keys() - {KEPT_UP})
    histories = [
        History(chance, name, KEYS[name], 250, nulls=name == "a/nullable", told=name in TOLD)
        for name in (KEPT_UP, *sample(others, chance.sample(others, 2)))
    ]
    for history in histories:
        lake.log.change_schema(history.schema)
    loaded = [event for history in histories for event in history.first_load()]
    lake.log.commit(*loaded, rows=60)

    for (way, kind), turn in zip(ROUNDS, TURNS, strict=True):
        for left in reversed(range(chance.randrange(1, 4))):
            commit(lake, histories, chance, {KEPT_UP: "" if left else turn})
            if chance.random() < 0.3:
                lake.log.compact()
        lake.keep_well("current", kind, way=way, **small)
        for history in histories:
            lake.assert_current(history.collection)
    lake.keep_well(**small)
    for history in histories:
        lake.assert_true(history.collection)
        assert_apart(lake, history)

    of_one = [part for part in seen.parts if (part.target.collection, part.target.kind) == (KEPT_UP, "current")]
    assert [part.shown.over for part in of_one if part.shown is not None] == [0, 1, 1, 0]
    assert [part.state.floor > 0 for part in of_one] == [False, False, False, True]
    assert sum(group.is_new for part in seen.parts for group in part.sources.groups) > 0
    assert {part.way for part in seen.parts} == {"task", "rewrite"}
    assert max(map(len, seen.ranges)) > 2
    assert seen.sampled


def commit(
    lake: KeptLake, histories: Sequence[History], chance: random.Random, turns: Mapping[str, str] | None = None
) -> None:
    """One commit of the log: transactions of all tables, which another of the source never cuts.

    Args:
        lake: Of the log.
        histories: Of its tables.
        chance: Decides.
        turns: By collection, how it takes its turn; the others take one at random.
    """
    mixed = []
    events: list[Event] = []
    for history in histories:
        turn = chance.choices(["", "begin", "go on", "end"], [4, 2, 2, 2])[0]
        turn = (turns or {}).get(history.collection, turn)
        # Rows are not laid over others where columns have other names by then.
        if turn != "begin" and chance.random() < (0.4 if history.collection in TOLD else 0.15):
            history.evolve()
            lake.log.change_schema(history.schema)
        if history.is_complete:
            lake.log.complete(history.collection)
            history.is_complete = False
        transactions = history.take_turn(turn)
        if turn == "begin":
            lake.log.begin(history.collection, after=len(events))
            events += transactions.pop(0)
        mixed.append(transactions)
    while mixed := [waiting for waiting in mixed if waiting]:
        waiting = chance.choice(mixed)
        for transaction in waiting[:10]:
            events += transaction
        del waiting[:10]
    lake.log.commit(*events, rows=chance.choice([None, 40]))


def assert_apart(lake: KeptLake, history: History) -> None:
    """Folds keep the files of a table apart by a key of one column, as far as Delta can state it."""
    target = Target(history.collection, "current")
    table = PositionedTable(target.place(StorePlace.of(lake.warehouse)), "log-1", target.name)
    if len(history.key) == 1:
        groups = file_groups(table.bounds(history.key))
        assert all(len(group.sources) == 1 for group in groups)
