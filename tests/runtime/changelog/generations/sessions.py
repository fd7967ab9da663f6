"""Sessions that write a log, one writer after another: what walks of any kind do, and how they end."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import orjson
import pytest
from hypothesis import HealthCheck, Phase, settings

from tidemark.protocol.changelog import ChangeLog, commit_files, layout
from tidemark.protocol.changelog.models import Commit
from tidemark.protocol.messages import Binding, Collection, JsonObject
from tidemark.runtime.changelog.batch import Batch
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.preparation.selection import SelectedTable
from tidemark.runtime.sessions.bound_table import BoundTable

T = TypeVar("T")

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""A walk makes a hundred small files, which costs a disk more than all else."""

BUDGET = settings(
    max_examples=1000,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
"""Of a mutant: its own walk, then the same random walks in each run, until one finds it."""


@contextmanager
def place_of_a_log() -> Iterator[Path]:
    """A folder for the log of one walk."""
    with TemporaryDirectory(dir=MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "SUMMARY_EVERY", 3)
        # No walk cuts the power, or loses a commit.
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(commit_files, "_AHEAD", ())
        yield Path(folder) / "log"


class Sessions(ABC, Generic[T]):
    """Batches with what the connector said in them.

    Args:
        root: Where the log is made.
        tables: What is captured.
    """

    def __init__(self, root: Path, tables: Sequence[SelectedTable]) -> None:
        self._root = root
        self._tables = tables
        self._writer = LogWriter.open(root, "shop")
        self._begin_session()

    @abstractmethod
    def _announced(self, table: str) -> JsonObject:
        """The schema of a table, as a connector says it at its start."""

    @abstractmethod
    def _compare(self, commit: Commit, said: list[T]) -> None:
        """Compares the log after a commit, with what was said in it."""

    def _begin_session(self) -> None:
        """The tables are as they were discovered, until the connector says how they are."""
        self._bound = {table.binding.collection.name: BoundTable(table, self._writer) for table in self._tables}
        for name, bound in self._bound.items():
            bound.learn(self._announced(name))
        self._batch, self._said = self._writer.begin(), list[T]()
        self._handed_over: list[tuple[Batch, list[T]]] = []

    def _add(self, bound: BoundTable, document: dict[str, Any]) -> None:
        self._batch.add(bound.handle(self._batch), [orjson.dumps(document)])

    def hand_over(self) -> None:
        """The batch is to be committed while the next one is filled."""
        self._commit_handed_over()
        self._handed_over = [(self._batch, self._said)]
        self._batch, self._said = self._writer.begin(), []

    def commit(self) -> None:
        self.hand_over()
        self._commit_handed_over()

    def _commit_handed_over(self) -> None:
        for batch, said in self._handed_over:
            self._compare(self._writer.commit(batch, {}, 1), said)
        self._handed_over = []

    def lose(self) -> None:
        """A session ends in the middle of a transaction. The next one has the same writer."""
        self._commit_handed_over()
        self._batch.discard()
        self._begin_session()

    def crash(self) -> None:
        """The capture ends, and nothing that is not committed comes to the log."""
        self._writer.close()
        self._writer = LogWriter.open(self._root, "shop")
        self._begin_session()
        self._compare(ChangeLog(self._root).commit(self._writer.summary.number), [])

    def reopen(self) -> None:
        """The capture ends cleanly, and begins again."""
        self.commit()
        self.crash()


def selected(table: str, schema: JsonObject, key: Sequence[str]) -> SelectedTable:
    """A table as it was discovered."""
    collection = Collection(name=table, key=[f"/{name}" for name in key], write_schema=schema)
    return SelectedTable(table.replace("/", "."), Binding(collection=collection), key=tuple(key))
