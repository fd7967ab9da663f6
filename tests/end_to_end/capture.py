"""A capture as a user has it: a file in a folder, and the ``tidemark`` commands on it, as processes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.datasource import InputPartition

from tests.warm_command import warm_command
from tests.warm_jvm import warm_jvm
from tests.warm_process import run_to_its_end
from tests.workload.replay import compare_with_source
from tests.workload.source import Contents, in_order
from tests.workload.tables import Database, source_of
from tidemark.demo.comparison import Row, compare
from tidemark.demo.lake import lake_rows
from tidemark.demo.measurements import LogProgress
from tidemark.demo.processes import TIDEMARK, Command, descendants
from tidemark.protocol.changelog import Segment
from tidemark.runtime.progress.state_folder import STATUS, StateFolder
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.live.state_partitions import plan_state, read_state
from tidemark.spark_sink.live.table_view import table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.inferred_schema import InferredSchema
from tidemark.spark_sink.source.partitions import plan, read_partition
from tidemark.spark_sink.tables.kept_tables import Target
from tidemark.spark_sink.tables.lineage import Lineage
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.deadline import wait_until

SECONDS = float(os.environ.get("TIDEMARK_TEST_SECONDS", "10"))
"""How long a test that goes on at random does so."""

COMMAND_SECONDS = max(180.0, 10 * SECONDS)
"""What a command may take: one that catches up has all that was written meanwhile before it."""


def own_process(database: Database) -> dict[str, Any]:
    """How a connector is run that a test stops or kills."""
    return {"command": ["python", "-m", source_of(database).connector]}


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said on both of its outputs."""

    status: int
    said: str


@dataclass
class Capture:
    """A capture file and its folder.

    Attributes:
        folder: Where the file, the change log, the lake and the outputs are.
        database: The source.
        config: The connector's configuration, on top of where the source is.
        connector: How the connector is run; as a fork of a warm process by default.
        tables: The entry ``tables``; the database's own by default.
        entries: Other entries of the file, over the usual ones.
    """

    folder: Path
    database: Database
    config: dict[str, Any] = field(default_factory=dict)
    connector: dict[str, Any] = field(default_factory=dict)
    tables: list[Any] = field(default_factory=list)
    entries: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.write()
        self.progress = LogProgress(self.log)

    @property
    def file(self) -> Path:
        return self.folder / "capture.yaml"

    @property
    def log(self) -> Path:
        return self.folder / "change.log"

    @property
    def state(self) -> StateFolder:
        return StateFolder.of_file(self.file)

    @property
    def status_file(self) -> Path:
        """The status of the capture, also where there is none yet."""
        assert self.state.path is not None
        return self.state.path / STATUS

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def output(self) -> Path:
        return self.folder / "output.log"

    def write(self) -> None:
        """Writes the capture file; JSON is YAML."""
        source = source_of(self.database)
        connector = self.connector or {"command": warm_command(source.connector)}
        content = {
            "capture": "test",
            "connector": {**connector, "config": {**source.config(), **self.config}},
            "tables": self.tables or [f"{source.schema}.*"],
            "log": str(self.log),
            "commit": {"interval": "100ms"},
            "spark": {"warehouse": str(self.lake), "tables": {"*": "current"}},
            **self.entries,
        }
        self.file.write_text(json.dumps(content, indent=2))

    def start(self, command: str = "capture", *options: str) -> Command:
        """Starts a command on the file; as a context, it and all it started end with the context."""
        return Command([command, str(self.file), *options], self.output)

    def connector_of(self, running: Command) -> int | None:
        """The process id of the connector that a running command has just now, one of its own: see ``own_process``."""
        module = source_of(self.database).connector
        assert self.connector, "a fork of a warm process is no child of the command"
        return next((pid for pid, command in descendants(running.pid).items() if module in command), None)

    def run(self, command: str, *options: str) -> Ended:
        """Runs a command on the file to its end."""
        return self._run(command, *options, environment=os.environ)

    def materialize(self, *options: str) -> Ended:
        """Runs ``materialize --available-now`` to its end, in the JVM of ``warm_jvm``."""
        return self._run("materialize", "--available-now", *options, environment={**os.environ, **warm_jvm()})

    def _run(self, command: str, *options: str, environment: Mapping[str, str]) -> Ended:
        whole = [*TIDEMARK, command, str(self.file), *options]
        ended = run_to_its_end(whole, environment=environment, timeout=COMMAND_SECONDS)
        return Ended(ended.returncode, ended.stdout + ended.stderr)

    def catch_up(self) -> None:
        """Captures everything there is."""
        ended = self.run("capture", "--until-caught-up")
        assert ended.status == 0, ended.said

    def wait_for_events(self, running: Command) -> None:
        """Waits until the command has committed more events than there are now."""
        size = self.progress.update().size

        def more() -> bool:
            assert running.running, self.output.read_text()[-2000:]
            return self.progress.update().size > size

        wait_until(more, 90, "more events", every=0.05)

    def snapshot_rows(self) -> int:
        """Rows of backfills that are committed."""
        return self.progress.update().snapshot_rows.total()

    def differences(self, tables: dict[str, list[str]] | None = None) -> list[str]:
        """Between the replayed change log and the source; empty when they are equal."""
        return compare_with_source(self.log, self.database, tables)

    def lake_differences(self, tables: dict[str, list[str]] | None = None) -> list[str]:
        """Between the lake's current tables and the source; empty when they are equal."""

        def kept(table: str, key: list[str], expected: Contents) -> list[Row]:
            folder = self.lake / table.replace(".", "/") / "current"
            return list(lake_rows(folder, list(expected.columns), key, expected.json_columns))

        return self._differences(kept, tables)

    def live_differences(self, tables: dict[str, list[str]] | None = None) -> list[str]:
        """Between the live view and the source; empty when they are equal."""
        log = FollowedLog(self.log)

        def seen(table: str, key: list[str], expected: Contents) -> list[Row]:
            view = table_view(log, table, log.end(), StorePlace.of(self.lake))
            found = (row for partition in plan_state(view, expected.columns) for row in _rows_of(partition))
            return [expected.row([row[name] for name in key], row) for row in found]

        return self._differences(seen, tables)

    def offsets(self, table: str) -> list[int]:
        """Of all events of a table, in their order."""
        log, segments = self._segments(table)
        files = (pq.read_table(log.file(segment), columns=["_offset"]) for segment in segments)
        return [event["_offset"] for file in files for event in file.to_pylist()]

    def newest_columns_since(self, table: str) -> int:
        """The offset from which on all events of a table have its newest columns."""
        _, segments = self._segments(table)
        newest = takewhile(lambda segment: segment.fingerprint == segments[-1].fingerprint, reversed(segments))
        return [segment.first_offset for segment in newest][-1]

    def _segments(self, table: str) -> tuple[FollowedLog, list[Segment]]:
        log = FollowedLog(self.log)
        return log, list(log.segments(table.replace(".", "/"), 0, log.end()))

    def history_differences(self, tables: Iterable[str]) -> list[str]:
        """Between the lake's histories and the events of the log; empty when they are equal."""
        log = FollowedLog(self.log)
        found: list[str] = []
        for table in tables:
            target = Target(table.replace(".", "/"), "history")
            kept = PositionedTable(target.place(StorePlace.of(self.lake)), log.header.log_id, target.name)
            rows = DeltaTable(kept.place.text).to_pyarrow_table().sort_by("_offset")
            events = list(_events(log, target.collection, kept.columns))
            if rows.select(list(kept.columns)).to_pylist() != events:
                found.append(f"{table} history: {rows.num_rows} rows differ from {len(events)} events")
            has = {name: len(rows) - rows.column(name).null_count for name in kept.columns}
            if lost := {name: count for name, count in _values(log, target.collection).items() if has[name] != count}:
                found.append(f"{table} history: other numbers of values than the log's {lost}")
            changes = InferredSchema.of(log, table, 0, log.end())
            if len(list(_events(log, target.collection, changes.columns, changes.lineage))) != len(events):
                found.append(f"{table}: changes are not all events")
        return found

    def _differences(
        self, rows: Callable[[str, list[str], Contents], list[Row]], tables: dict[str, list[str]] | None
    ) -> list[str]:
        found: list[str] = []
        source = source_of(self.database)
        for table, key in (tables or source.tables()).items():
            expected = source.contents(table, key)
            copy = in_order(rows(table, key, expected))
            found += [f"{table} {example}" for example in compare(expected.rows, copy, expected.columns).examples]
        return found


def _events(
    log: FollowedLog, collection: str, columns: Mapping[str, str], lineage: Lineage | None = None
) -> Iterator[dict[str, Any]]:
    """All events of a table, read as these columns."""
    for partition in plan(log, collection, columns, 0, log.end(), lineage=lineage):
        for batch in read_partition(log.at, columns, partition):
            yield from batch.to_pylist()


def _values(log: FollowedLog, collection: str) -> Counter[str]:
    """How many values the log's files have, by the columns that they are in where generations are read together."""
    found: Counter[str] = Counter()
    for segment in log.segments(collection, 0, log.end()):
        rows = pq.read_table(log.file(segment))
        for column in log.schema(segment.fingerprint).columns:
            found[column.in_span] += len(rows) - rows.column(column.name).null_count
    return found


def _rows_of(partition: InputPartition) -> Iterator[dict[str, Any]]:
    for batch in read_state(partition):
        yield from batch.to_pylist()
