"""A table that is altered, and what a lake has of many of them: whoever alters a captured table, and whenever."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.alterations.outcome import Outcome, Outcomes, outcome
from tests.end_to_end.alterations.streams import Streams
from tests.end_to_end.capture import Capture
from tests.workload.source import Source
from tests.workload.tables import Database, source_of
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.testing.deadline import wait_until

ROWS = 8

MODES = ("stopped", "running")
"""What the capture is meanwhile."""


@dataclass(frozen=True)
class Altered:
    """A table ``(id int PRIMARY KEY, c …, n int)`` of eight rows that is altered.

    Attributes:
        type: Of the column ``c``.
        value: Of it in row ``i``, in SQL.
        alter: The statements.
        key: Names of the key's columns afterwards.
        options: Of the table.
    """

    type: str
    value: str
    alter: tuple[str, ...]
    key: tuple[str, ...] = ("id",)
    options: str = ""

    def create(self, name: str) -> list[str]:
        numbers = " UNION ALL ".join(f"SELECT {i} AS i" for i in range(1, ROWS + 1))
        return [
            f"CREATE TABLE {name} (id int PRIMARY KEY, c {self.type}, n int) {self.options}",
            f"INSERT INTO {name} SELECT i, {self.value}, i FROM ({numbers}) numbers",
        ]

    def change(self, name: str) -> list[str]:
        """The statements, and changes of rows before and after them."""
        return [
            f"UPDATE {name} SET n = 50 WHERE id = 5",
            *(statement.format(t=name) for statement in self.alter),
            f"UPDATE {name} SET n = NULL WHERE CAST(id AS char(9)) LIKE '3%'",
            f"DELETE FROM {name} WHERE CAST(id AS char(9)) LIKE '4%'",
        ]


def altered(*actions: str, type_: str = "int", value: str = "i", key: tuple[str, ...] = ("id",)) -> Altered:
    """A table to which an ALTER TABLE does each of these."""
    return Altered(type_, value, tuple(f"ALTER TABLE {{t}} {action}" for action in actions), key)


class AlteredTables:
    """A capture of tables that are altered, and its lake.

    Args:
        database: Where the tables are made.
        folder: Of the capture.
        cases: The tables by their names.
        outcomes: What their alterations come to.
        setup: What their types need, in SQL.
        streamed: Names of tables whose events a stream has as well.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        cases: Mapping[str, Altered],
        outcomes: Outcomes,
        setup: Sequence[str] = (),
        streamed: Collection[str] = (),
    ) -> None:
        self._source: Source = source_of(database)
        self._cases = cases
        self._outcomes = outcomes
        self._keys = {self._qualified(name): list(case.key) for name, case in cases.items()}
        self._run(setup)
        for name, case in cases.items():
            self._run(case.create(name))
        self._run(["CREATE TABLE the_end (id int PRIMARY KEY)"])
        kinds = {"*": ["current", "history"]}
        self._capture = Capture(
            folder, database, entries={"spark": {"warehouse": str(folder / "lake"), "tables": kinds}}
        )
        self._streams = Streams(self._capture, {table: self._keys[table] for table in map(self._qualified, streamed)})

    def alter(self, mode: str, *, rebuild: bool) -> None:
        """Alters them in one of the ``MODES``, and compares the lake with the source.

        Args:
            rebuild: Also after the lake is built anew from the log.
        """
        with self._streams:
            self._alter(mode, rebuild=rebuild)

    def _alter(self, mode: str, *, rebuild: bool) -> None:
        if mode == "stopped":
            self._while_the_capture_is_stopped()
        else:
            self._while_the_capture_runs()
        self._capture.catch_up()
        _assert_none(self._capture.live_differences(self._keys))
        found = self._found()
        _assert_none([f"{name} came to {one}" for name, one in found.items() if not self._is_known(name, one)])
        self._materialize()
        self._assert_equal(self._keys)
        self._streams.go_on()
        followed = {self._qualified(name) for name, one in found.items() if one is Outcome.FOLLOWED}
        _assert_none(self._streams.differences(self._source, followed))
        if rebuild:
            self._materialize(*(part for table in self._keys for part in ("--rebuild", table)))
            self._assert_equal(self._keys)

    def _found(self) -> dict[str, Outcome]:
        """What the alterations came to, by the tables' names."""
        log = FollowedLog(self._capture.log)
        return {name: outcome(log, f"{self._source.schema}/{name}", ROWS) for name in self._cases}

    def _is_known(self, name: str, found: Outcome) -> bool:
        order = list(Outcome)
        known = [place for place, one in enumerate(order) if name in self._outcomes[one]]
        return known[0] <= order.index(found) <= known[-1]

    def _while_the_capture_is_stopped(self) -> None:
        self._capture.catch_up()
        self._materialize()
        self._assert_equal({table: ["id"] for table in self._keys})
        self._streams.go_on()
        self._change()

    def _while_the_capture_runs(self) -> None:
        end = f"{self._source.schema}/the_end"
        with self._capture.start() as running:
            wait_until(lambda: self._capture.snapshot_rows() == ROWS * len(self._cases), 120, "all rows are captured")
            self._materialize()
            self._streams.go_on()
            self._change()
            self._streams.go_on()

            def is_read() -> bool:
                assert running.running, self._capture.output.read_text()[-2000:]
                return self._capture.progress.update().changes[end] > 0

            wait_until(is_read, 120, "the log is read", every=0.1)

    def _change(self) -> None:
        for name, case in self._cases.items():
            self._run(case.change(name))
        self._run(["INSERT INTO the_end VALUES (1)"])

    def _qualified(self, name: str) -> str:
        return f"{self._source.schema}.{name}"

    def _assert_equal(self, keys: dict[str, list[str]]) -> None:
        _assert_none(self._capture.lake_differences(keys))
        _assert_none(self._capture.live_differences(keys))
        _assert_none(self._capture.history_differences(keys))

    def _materialize(self, *options: str) -> None:
        ended = self._capture.materialize(*options)
        assert ended.status == 0, ended

    def _run(self, statements: Sequence[str]) -> None:
        with closing(self._source.connect(autocommit=True)) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)


def _assert_none(differences: list[str]) -> None:
    assert not differences, "\n".join(differences)
