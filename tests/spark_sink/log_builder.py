"""Writes change logs for tests: real files, through nothing but the format's models and Arrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.protocol.segment_facts import segment_facts
from tidemark.protocol.changelog import (
    ChangeLog,
    Column,
    Commit,
    Generation,
    LogHeader,
    Segment,
    Summary,
    TableSchema,
    layout,
)
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.changelog.summaries import advance
from tidemark.runtime.changelog.compaction.runs import RunLimits
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.upkeep import Upkeep, UpkeepRules
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.spark_sink.tables.column_types import arrow_schema

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of commit 0; every commit is a second later than the one before."""


@dataclass(frozen=True)
class Event:
    """One event: its operation, the columns it carries, and what it leaves as it was."""

    op: str
    row: Mapping[str, Any] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    snapshot: bool = False
    table: str = "public/items"
    before: str | None = None


def schema(collection: str = "public/items", key: Sequence[str] = ("id",), **columns: str) -> TableSchema:
    """A table's schema; ``id bigint, name string, note string`` by default."""
    own = columns or {"id": "bigint", "name": "string", "note": "string"}
    return TableSchema(collection=collection, columns=[Column(name=n, type=t) for n, t in own.items()], key=list(key))


class LogBuilder:
    """Appends commits to a change log. Every commit's events go to one segment per table, or to several.

    Args:
        root: Where the log is made.
        schemas: Of the tables; ``change_schema`` replaces one from the next commit on.
    """

    def __init__(self, root: Path, *schemas: TableSchema, log_id: str = "log-1") -> None:
        self.root = root
        self.schemas: dict[str, TableSchema] = {}
        self.columns: dict[str, list[str]] = {}
        """Of each table, all that events of it ever had."""
        for of in schemas or (schema(),):
            self.change_schema(of)
        self.introduced: set[str] = set()
        self._generation: dict[str, int | None] = {}
        self._stated: dict[str, Generation] = {}
        self._of: dict[int, int | None] = {}
        self._under: dict[int, TableSchema] = {}
        self._shown_from: dict[tuple[str, int], int] = {}
        self._to_state: list[Generation] = []
        self.number = 0
        self.epoch = 1
        self.offset = 0
        self.events: list[tuple[int, Event]] = []
        (root / layout.COMMITS).mkdir(parents=True)
        self._summary = Summary(number=-1, epoch=0, time=EPOCH, next_offset=0)
        header = LogHeader(log_id=log_id, capture="test", created=EPOCH)
        (root / layout.HEADER).write_text(header.model_dump_json())

    def change_schema(self, new: TableSchema) -> None:
        self.schemas[new.collection] = new

    def restore(self, copy: Path) -> None:
        """Puts an older copy of the log in its place, with which it goes on."""
        shutil.rmtree(self.root)
        shutil.copytree(copy, self.root)
        self._summary = ChangeLog(self.root).summary()
        self.number, self.offset = self._summary.number + 1, self._summary.next_offset
        self.introduced = set(self._summary.schemas)
        self.events = [(offset, event) for offset, event in self.events if offset < self.offset]

    def detach(self, table: str = "public/items") -> None:
        """Later events of a table belong to no generation."""
        self._generation[table] = None

    def begin(self, table: str = "public/items", after: int = 0) -> None:
        """A table is read again from the next commit on: its events are of a new generation, which is not whole.

        Args:
            table: Its collection.
            after: How many events of other tables come before its first one in the commit.
        """
        number = (self._stated[table].number if table in self._stated else 1) + 1
        self._generation[table] = number
        self._state(Generation(collection=table, number=number, begin=self.offset + after, why="a test"))

    def shown_events(self, table: str = "public/items", end: int | None = None) -> list[tuple[int, Event]]:
        """The events that make a table's rows as of an offset, if all its generations have the same key and columns.

        They are those of the last generation that was whole by then, and of all later ones, laid over it: the ``t``
        with which one of these begins empties nothing.
        """
        end = self.offset if end is None else end
        whole = [number for (of, number), shown in self._shown_from.items() if of == table and shown <= end]
        base = max(whole, default=1)
        own = [(offset, event) for offset, event in self.events if event.table == table and offset < end]
        events = [(offset, event) for offset, event in own if (self._of[offset] or 0) >= base]
        begins = {self._of[offset]: offset for offset, _ in reversed(events)}
        return [
            (offset, self._as_named_last(event, self._under[offset]))
            for offset, event in events
            if self._of[offset] == base or (offset, event.op) != (begins[self._of[offset]], "t")
        ]

    def _as_named_last(self, event: Event, under: TableSchema) -> Event:
        """An event with the names that its table's columns have by now, and the constants of those that came later."""
        named = {column.id: column.name for column in under.columns if column.id is not None}
        if not named or not event.row:
            return event
        now = {column.name: column for column in self.schemas[event.table].columns}
        before = {name: named.get(column.id or "") for name, column in now.items()}
        row = {name: event.row.get(old) if old is not None else now[name].fill for name, old in before.items()}
        unchanged = tuple(name for name, old in before.items() if old is not None and old in event.unchanged)
        return replace(event, row=row, unchanged=unchanged)

    def complete(self, table: str = "public/items") -> None:
        """The newest generation is whole after the events so far, as the next commit says."""
        self._state(self._stated[table].model_copy(update={"whole": self.offset}))

    def announce(self, new: TableSchema) -> Commit:
        """One commit that says that a table has another schema, without an event."""
        self.change_schema(new)
        return self.commit(announced=new)

    def compact(self) -> int:
        """Compacts all but the newest commit, and deletes what was replaced. Returns how many commits were compacted.

        It is the runtime's own compaction, whose writer begins with a commit of its own.
        """
        limits = RunLimits(due=2, least=2, recent=1, tier=3)
        with self._upkeep() as upkeep:
            return upkeep.compact(limits)

    def trim(self, *captured: str) -> int:
        """Removes what is not needed to build captured tables again, and returns the offset at which the log begins.

        The runtime's own retention does so, after its compaction: a log begins after a compacted range, among others.
        """
        self.compact()
        with self._upkeep(Retain(recent=1), captured) as upkeep:
            upkeep.retain()
        return self._summary.log_start.offset

    @contextmanager
    def _upkeep(self, retain: Retain | None = None, captured: Sequence[str] = ()) -> Iterator[Upkeep]:
        damaged: list[object] = []
        with LogWriter.open(self.root, "test") as log:
            rules = UpkeepRules(RunLimits(), timedelta(), retain, lambda: captured)
            yield Upkeep(log, rules, lambda: log.commit(log.begin(), log.state, 0), damaged.append)
            self._summary = log.summary
        assert not damaged
        self.number, self.epoch = self._summary.number + 1, self._summary.epoch

    def _state(self, generation: Generation) -> None:
        self._stated[generation.collection] = generation
        self._to_state.append(generation)

    def commit(
        self,
        *events: Event,
        rows: int | None = None,
        announced: TableSchema | None = None,
        departing: tuple[TableSchema, Sequence[Event]] | None = None,
    ) -> Commit:
        """Writes one commit of these events, in this order.

        Args:
            events: In the order of their offsets.
            rows: Most of a segment.
            announced: A schema without an event.
            departing: A schema, and later events of its table in the same commit, which belong to no generation.
        """
        first = self.offset
        by_table: dict[str, list[tuple[int, Event]]] = {}
        for event in events:
            by_table.setdefault(event.table, []).append((self.offset, event))
            self.offset += 1
        self.events += [pair for pairs in by_table.values() for pair in pairs]
        self._of |= {
            offset: self._generation.get(event.table, 1) for pairs in by_table.values() for offset, event in pairs
        }
        self._under |= {offset: self.schemas[event.table] for pairs in by_table.values() for offset, event in pairs}
        for stated in self._to_state:
            if stated.whole is not None:
                # A commit counts from its first event on.
                shown = max(stated.whole, first + (self.offset > first))
                self._shown_from.setdefault((stated.collection, stated.number), shown)
        time = EPOCH + timedelta(seconds=self.number)
        pieces = [
            (table, pairs[start : start + (rows or len(pairs))])
            for table, pairs in by_table.items()
            for start in range(0, len(pairs), rows or len(pairs))
        ]
        segments = [self._segment(i, table, pairs, time) for i, (table, pairs) in enumerate(pieces)]
        used = {self.schemas[table].fingerprint: self.schemas[table] for table in by_table}
        if departing is not None:
            new, later = departing
            self.change_schema(new)
            self.detach(new.collection)
            pairs = list(enumerate(later, self.offset))
            segments.append(self._segment(len(segments), new.collection, pairs, time))
            self.events += pairs
            self._of |= dict.fromkeys((offset for offset, _ in pairs), None)
            self._under |= dict.fromkeys((offset for offset, _ in pairs), new)
            self.offset += len(pairs)
            used[new.fingerprint] = new
        if announced is not None:
            used[announced.fingerprint] = announced
        commit = Commit(
            number=self.number,
            epoch=self.epoch,
            time=time,
            first_offset=first,
            next_offset=self.offset,
            schemas={f: s for f, s in used.items() if f not in self.introduced},
            announced={announced.collection: announced.fingerprint} if announced is not None else {},
            generations=self._to_state,
            segments=segments,
        )
        self._to_state = []
        self.introduced |= used.keys()
        for of in used.values():
            known = self.columns.setdefault(of.collection, [])
            known += [column.name for column in of.columns if column.name not in known]
        unfinished = self.root / "unfinished"
        unfinished.write_text(commit.model_dump_json())
        unfinished.rename(self.root / layout.COMMITS / layout.commit_name(self.number))
        self._summary = advance(self._summary, commit)
        if self.number % layout.SUMMARY_EVERY == 0:
            path = self.root / layout.COMMITS / layout.summary_name(self.number)
            path.write_text(self._summary.model_dump_json())
        self.number += 1
        return commit

    def _segment(self, index: int, table: str, pairs: Sequence[tuple[int, Event]], time: datetime) -> Segment:
        of = self.schemas[table]
        own = {column.name: column.type for column in of.columns}
        path = layout.segment_path(table, self.number, self.epoch, index)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {
                **event.row,
                "_op": event.op,
                "_offset": offset,
                "_commit_ts": None if event.snapshot else time,
                "_loc": f"[{offset}]",
                "_txid": str(self.number),
                "_snapshot": event.snapshot,
                "_before": event.before,
                "_unchanged": list(event.unchanged) or None,
            }
            for offset, event in pairs
        ]
        content = pa.Table.from_pylist(rows, arrow_schema({**own, **META_COLUMNS}))
        pq.write_table(content, self.root / path, compression="zstd", write_page_checksum=True)
        return Segment(
            collection=table,
            path=path,
            rows=len(rows),
            size=(self.root / path).stat().st_size,
            uncompressed=content.nbytes,
            first_offset=pairs[0][0],
            last_offset=pairs[-1][0],
            fingerprint=of.fingerprint,
            generation=self._generation.get(table, 1),
            snapshot_rows=sum(event.snapshot for _, event in pairs),
            **segment_facts(of, rows),
        )


def create(id: int, name: str | None = None, note: str | None = None, **more: Any) -> Event:
    return Event("c", {"id": id, "name": name, "note": note}, **more)
