"""What happens to a micro-batch: every table that has events in it takes them, several tables at a time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pydantic import BaseModel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from protocol.changelog import Segment, Summary
from protocol.errors import SparkError, TidemarkError
from spark_sink.pipeline.table_keeper import CommittedSegment, TableKeeper
from spark_sink.source.followed_log import FollowedLog, Limits
from spark_sink.spark_failures import tidemark_error
from spark_sink.tables.kept_tables import KeepRules, Target

_TABLES_AT_ONCE = min(4, os.cpu_count() or 1)
"""Each holds a batch's rows of its table in memory while it merges them."""


@dataclass(frozen=True, slots=True)
class Applied:
    """One table took its events of a batch.

    Attributes:
        target: Which table.
        events: How many.
        position: Of the table now: all events below it are applied.
        seconds: That it took.
    """

    target: Target
    events: int
    position: int
    seconds: float


class Memory(BaseModel):
    """Where the tables were after the last batch, to notice one that is not there any more.

    Attributes:
        end: Of the batch, as a log offset.
        positions: Of the tables, by name.
    """

    end: int
    positions: dict[str, int]


class Pipeline:
    """Applies a stream of ``tidemark_segments`` to all kept tables. A ``foreachBatch`` function.

    Args:
        log: Directory of the change log.
        warehouse: Where tables are.
        rules: What is kept of each table.
        limits: Of what one table applies at once.
        memory: A file beside the query's checkpoint, for ``Memory``.
        progress: Called, from several threads, when a table has taken a batch.
    """

    def __init__(
        self,
        log: Path,
        warehouse: Path,
        rules: KeepRules,
        limits: Limits,
        memory: Path,
        progress: Callable[[Applied], None],
    ) -> None:
        self.log = FollowedLog(log)
        self.keepers: dict[Target, TableKeeper] = {}
        self.failure: TidemarkError | None = None
        self._warehouse = warehouse
        self._rules = rules
        self._limits = limits
        self._memory = memory
        self._progress = progress

    def open(self, *, resuming: bool) -> None:
        """Opens the tables of what is in the log, and brings up to date those that the query would not.

        A query that resumes goes on behind the last batch. A table that is to be kept only now, or was removed or
        restored to an older version, lacks events from before: it takes them here.

        Args:
            resuming: The query has a checkpoint.

        Raises:
            SparkError: ``TM-SPK-006`` when a table is ahead of the log, ``TM-SPK-007``, ``TM-SPK-009``, and those of
                ``TableKeeper.apply``.
        """
        summary = self.log.summary()
        for collection in summary.totals:
            for keeper in self._keepers_of(collection, summary):
                if keeper.table.position > summary.next_offset:
                    raise SparkError(
                        "TM-SPK-006",
                        f"{keeper.table.path} is at offset {keeper.table.position}, "
                        f"but {self.log.root} ends at {summary.next_offset}",
                    )
        if resuming and self._memory.exists():
            memory = Memory.model_validate_json(self._memory.read_bytes())
            behind = [
                k for k in self.keepers.values() if k.table.position < memory.positions.get(k.target.name, sys.maxsize)
            ]
            if behind:
                self._apply_all([(keeper, self._earlier(keeper.target, memory.end)) for keeper in behind])
                self._remember(memory.end)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            segments = [_committed(row) for row in batch.collect()]
            self.apply(sorted(segments, key=lambda committed: committed.segment.first_offset))
        except PySparkException as error:
            self.failure = tidemark_error(error)
            raise self.failure from error
        except TidemarkError as error:
            self.failure = error
            raise

    def apply(self, segments: Sequence[CommittedSegment]) -> None:
        """Applies a batch: segments of all collections, in offset order, that follow on those of the batch before.

        Raises:
            TidemarkError: Those of ``TableKeeper.apply``, after all tables have done what they could.
        """
        if not segments:
            return
        of_collection: dict[str, list[CommittedSegment]] = {}
        for committed in segments:
            of_collection.setdefault(committed.segment.collection, []).append(committed)
        known = set(self.keepers)
        summary = self.log.summary()
        work: list[tuple[TableKeeper, Iterable[CommittedSegment]]] = []
        for collection, new in of_collection.items():
            for keeper in self._keepers_of(collection, summary):
                # A table may begin to be kept at any time: its collection is new, or has a key only now.
                earlier = (
                    () if keeper.target in known else self._earlier(keeper.target, segments[0].segment.first_offset)
                )
                work.append((keeper, chain(earlier, new)))
        self._apply_all(work)
        self._remember(max(committed.segment.last_offset for committed in segments) + 1)

    def _apply_all(self, work: Sequence[tuple[TableKeeper, Iterable[CommittedSegment]]]) -> None:
        with ThreadPoolExecutor(_TABLES_AT_ONCE, thread_name_prefix="tidemark-table") as pool:
            running = [pool.submit(self._apply, keeper, segments) for keeper, segments in work]
        # One bad table does not keep the others from their events; then the batch fails, and comes again.
        for future in running:
            future.result()

    def _earlier(self, target: Target, end: int) -> Iterator[CommittedSegment]:
        """The collection's segments before ``end`` that its table lacks."""
        log = FollowedLog(self.log.root)  # of its own: this runs in the thread that applies them
        if target.collection not in log.summary(log.commit_with_offset(end) - 1).totals:
            return
        for number, segment in log.segments_of_all(self.keepers[target].table.position, end):
            if segment.collection == target.collection:
                yield CommittedSegment(number, segment)

    def _apply(self, keeper: TableKeeper, segments: Iterable[CommittedSegment]) -> None:
        began, before = time.monotonic(), keeper.events
        keeper.apply(segments)
        if applied := keeper.events - before:
            self._progress(Applied(keeper.target, applied, keeper.table.position, time.monotonic() - began))

    def _keepers_of(self, collection: str, summary: Summary) -> list[TableKeeper]:
        schema = summary.schemas[summary.totals[collection].fingerprint]
        targets = self._rules.targets(schema)
        for target in targets:
            if target not in self.keepers:
                self.keepers[target] = TableKeeper(self.log.root, target, self._warehouse, self._limits)
        return [self.keepers[target] for target in targets]

    def _remember(self, end: int) -> None:
        positions = {target.name: keeper.table.position for target, keeper in self.keepers.items()}
        unfinished = self._memory.with_suffix(".unfinished")
        unfinished.write_text(Memory(end=end, positions=positions).model_dump_json(indent=1))
        unfinished.replace(self._memory)


def _committed(row: Row) -> CommittedSegment:
    fields = row.asDict()
    return CommittedSegment(fields.pop("commit"), Segment.model_validate(fields))
