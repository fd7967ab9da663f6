"""Streams with checkpoints, of tables that are altered: each goes on whenever it is told to.

``python -m tests.end_to_end.alterations.streams LOG FOLDER TABLE…`` is the program that a user would write: a query of
each table, which is started again where the columns have changed under it. For each line of its stdin it reads what
there is, and then makes the file that the line names.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from tests.end_to_end.capture import Capture
from tests.workload.source import Contents, Source, in_order
from tidemark.demo.comparison import compare
from tidemark.spark_sink.spark.failures import spark_exceptions, tidemark_error
from tidemark.testing.deadline import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPANNING = re.compile(r"(.+)__(\d+)")

AT_A_TIME = 3
"""Queries."""


class Streams:
    """A stream of each of some tables. As a context, their program ends with the context.

    Args:
        capture: Whose log they read.
        keys: The columns of each table's key at the end, by ``schema.table``.
    """

    def __init__(self, capture: Capture, keys: Mapping[str, list[str]]) -> None:
        self._capture = capture
        self._keys = keys
        self._asked = 0
        self._program: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._program is not None:
            if error[0] is not None:
                self._program.kill()  # It may be at work for long, and that would hide the error.
            self._program.communicate(timeout=60)  # Its stdin ends.

    def go_on(self) -> None:
        """Reads what there is since the last time."""
        if not self._keys:
            return
        self._folder.mkdir(exist_ok=True)
        output, done = self._folder / "output.log", self._folder / f"{self._asked}.done"
        self._asked += 1
        if self._program is None:
            command = [sys.executable, "-m", __name__, str(self._capture.log), str(self._folder), *self._keys]
            with output.open("w") as said:
                self._program = subprocess.Popen(command, stdin=PIPE, stdout=said, stderr=said, text=True)
        program = self._program
        assert program.stdin is not None
        program.stdin.write(f"{done}\n")
        program.stdin.flush()
        deadline = 60 + 20 * len(self._keys)
        wait_until(
            lambda: done.exists() or program.poll() is not None, deadline, "the streams have read all", every=0.1
        )
        assert done.exists(), output.read_text()

    def differences(self, source: Source, followed: Collection[str]) -> list[str]:
        """What is missing in the batches, twice there, or not what the source has; empty if nothing is.

        Args:
            source: Has the tables.
            followed: Tables whose rows are not read again: rows that did not change have come under earlier names.
        """
        found = []
        for table, key in self._keys.items():
            events = [event for batch in _batches(self._folder / table) for event in batch]
            offsets = [event["_offset"] for event in events]
            if offsets != self._capture.offsets(table):
                found.append(f"{table}: a stream did not get each event once, but {offsets}")
            rows = _rows(events, key, self._capture.newest_columns_since(table))
            if table not in followed and None in rows.values():
                found.append(f"{table} stream: rows were not read again")
            found += [f"{table} stream: {what}" for what in _other_rows(rows, source.contents(table, key))]
        return found

    @property
    def _folder(self) -> Path:
        return self._capture.folder / "streams"


Event = dict[str, Any]
Rows = dict[tuple[Any, ...], Event | None]
"""By the key; None where the last event has other columns than the newest."""


def _batches(folder: Path) -> Iterator[list[Event]]:
    for file in sorted(folder.glob("*.arrow")):
        with pa.ipc.open_file(str(file)) as events:
            yield events.read_all().sort_by("_offset").to_pylist()


def _rows(events: list[Event], key: list[str], since: int) -> Rows:
    """What events come to. From an offset on they have the newest columns."""
    rows: Rows = {}
    for event in map(_under_own_names, events):
        at = tuple(event.get(name) for name in key)
        if event["_op"] == "t":
            rows.clear()
        elif event["_op"] == "d":
            rows.pop(at, None)
        else:
            rows[at] = event if event["_offset"] >= since else None
    return rows


def _under_own_names(event: Event) -> Event:
    """With the values that are in columns of another name, where events of several generations are read together."""
    newest = sorted((int(found[2]), found[1], found[0]) for name in event if (found := _SPANNING.fullmatch(name)))
    return event | {name: event[spanning] for _, name, spanning in newest if event[spanning] is not None}


def _other_rows(rows: Rows, expected: Contents) -> list[str]:
    """How rows differ from the source's, as far as their last events have the newest columns."""
    found = [expected.row(at, row) for at, row in rows.items() if row is not None]
    earlier = {tuple(map(str, at)) for at, row in rows.items() if row is None}
    wanted = [row for row in expected.rows if row[0] not in earlier]
    return [str(example) for example in compare(wanted, in_order(found), expected.columns).examples]


def _follow(spark: SparkSession, log: str, folder: Path) -> None:
    """Reads a table until there is no more, and starts again where a query stops since the columns changed.

    A query that stops twice at one place is told which columns to read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stops: list[str] = []
    while (stop := _run(spark, log, folder, told=len(set(stops)) < len(stops))) is not None:
        stops.append(stop)
        assert len(stops) < 10, stops


def _run(spark: SparkSession, log: str, folder: Path, *, told: bool) -> str | None:
    """Runs a query until it has all events. Why it stopped before, if it did: its columns changed."""
    from tidemark import read_changes

    run = len(list(folder.glob("*.run")))
    (folder / f"{run}.run").touch()

    def keep(batch: DataFrame, number: int) -> None:
        events = batch.toArrow()
        if events.num_rows:
            with pa.ipc.new_file(str(folder / f"{run:03}-{number:06}.arrow"), events.schema) as file:
                file.write_table(events)

    reader = spark.readStream.format("tidemark").option("path", log).option("table", folder.name)
    if told:
        reader = reader.schema(read_changes(spark, log, folder.name).schema)
    try:
        writer = reader.load().writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    except spark_exceptions() as error:
        ours = tidemark_error(error)
        if ours.code != "TM-SPK-019":
            raise
        return str(ours)
    return None


def main(log: str, folder: str, *tables: str) -> None:
    from tidemark import register
    from tidemark.spark_sink.spark.spark_session import open_session

    spark, _ = open_session(None, {"spark.sql.session.timeZone": "UTC"})
    register(spark)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for done in sys.stdin:
            # The first query puts what Python needs into a map that Spark shares between all of them, and that it may
            # be sending to a task of another one: java.io.OptionalDataException.
            _follow(spark, log, Path(folder, tables[0]))
            list(pool.map(lambda table: _follow(spark, log, Path(folder, table)), tables[1:]))
            Path(done.strip()).touch()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
