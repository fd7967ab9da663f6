"""The model's consumer: it replays a stream and objects to what may not be in one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.backfill.database import KEYLESS, TABLES, Delete, Event, Row, Truncate


@dataclass
class Work:
    """What scans of one table have given since its backfill began.

    Attributes:
        given: Keys, or pages.
        repeated: How many of them were given again.
        allowed: How many may be: rows or pages of chunks that were in flight when their range was split.
        counted: Whether repetitions are counted: not when some rows were asked for twice.
    """

    given: set[int] = field(default_factory=set)
    repeated: int = 0
    allowed: int = 0
    counted: bool = True

    def add(self, places: list[int]) -> None:
        self.repeated += len(self.given.intersection(places))
        self.given.update(places)
        assert not self.counted or self.repeated <= self.allowed, f"work was repeated: {self.repeated} > {self.allowed}"

    def copy(self) -> Work:
        return Work(set(self.given), self.repeated, self.allowed, self.counted)


class Consumer:
    """Replays documents: upsert with lacking columns kept, delete, truncate; a chunk's row replaces the row."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[int, dict[str, int]]] = {table: {} for table in TABLES}
        self.versions: dict[tuple[str, int], int] = {}
        self.truncated = dict.fromkeys(TABLES, 0)
        self.work = {table: Work() for table in TABLES}
        self.counts: Counter[int] = Counter()
        """Of the table without a key: how often each row came, less how often it went."""

    def copy(self) -> Consumer:
        other = Consumer()
        other.tables = {table: dict(rows) for table, rows in self.tables.items()}
        other.versions = dict(self.versions)
        other.truncated = dict(self.truncated)
        other.work = {table: work.copy() for table, work in self.work.items()}
        other.counts = Counter(self.counts)
        return other

    def log(self, event: Event) -> None:
        rows = self.tables[event.table]
        if event.table == KEYLESS:
            self._count(event)
        elif isinstance(event, Truncate):
            rows.clear()
            self.truncated[event.table] = event.version
        elif isinstance(event, Delete):
            self._newer(event.table, event.key, event.version)
            rows.pop(event.key, None)
        else:
            self._newer(event.table, event.key, event.row.version)
            columns = event.row.columns()
            if event.partial:
                del columns["large"]
                columns = {**rows.get(event.key, {}), **columns}
            rows[event.key] = columns

    def _count(self, event: Event) -> None:
        if isinstance(event, Truncate):
            self.counts.clear()
        else:
            self.counts[event.key] += -1 if isinstance(event, Delete) else 1

    def chunk_row(self, table: str, key: int, row: Row) -> None:
        if table == KEYLESS:
            self.counts[key] += 1
            return
        self._newer(table, key, row.version)
        self.tables[table][key] = row.columns()

    def empty(self, table: str) -> None:
        """The connector has the table emptied, because it gives all rows again."""
        if table == KEYLESS:
            self.counts.clear()
        self.tables[table].clear()
        for name, key in list(self.versions):
            if name == table:
                del self.versions[name, key]

    def _newer(self, table: str, key: int, version: int) -> None:
        emitted = max(self.versions.get((table, key), 0), self.truncated[table])
        assert version >= emitted, f"row {key} of {table} went back from version {emitted} to {version}"
        self.versions[table, key] = version
