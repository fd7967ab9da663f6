"""Drivers in processes of their own, which share the JVM of a test's session and so start at once.

``python -m tests.spark_sink.pipeline.driver_process PORT SECRET`` reads runs from its input, a line of JSON each, forks
a process for each of them, and answers with a line of JSON once it has ended, however it did.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake  # noqa: F401  imported before the fork, as what follows
import pyspark.sql.pandas.map_ops  # noqa: F401

from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.parts.spark_jobs import SparkJobs
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.pipeline.memory import Memory
from tidemark.spark_sink.run.settings import KeepSettings, PartLimits
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.deadline import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIED = 9
"""The exit code of a driver that was killed at a failpoint."""


@dataclass(frozen=True)
class Run:
    """What a driver is to do.

    Attributes:
        log: Directory of the log.
        warehouse: Directory of the tables.
        task_bytes: Events of more bytes are applied by ``rewrite``.
        die_at: The failpoint at which it dies, from 0; None to go on to the end.
        die_writing: It dies as soon as there is a new file of a table.
        meet: A folder in which it meets another run before both make their first commit; None where it is alone.
    """

    log: str
    warehouse: str
    task_bytes: int = PartLimits().task_events
    die_at: int | None = None
    die_writing: bool = False
    meet: str | None = None


@dataclass(frozen=True)
class Ended:
    """How it ended.

    Attributes:
        code: Exit code of the process.
        errors: Of tables that were set aside.
        points: Names of the failpoints that it came by.
    """

    code: int
    errors: list[str]
    points: list[str]


class Failpoints:
    """Places before and after all that a driver does to the outside.

    Args:
        die_at: At which of them the process ends at once; at none when None.
    """

    def __init__(self, die_at: int | None) -> None:
        self.passed: list[str] = []
        self._die_at = die_at

    def surround(self, owner: type, name: str) -> None:
        """Puts one before and one after each call of a method."""
        call: Callable[..., Any] = getattr(owner, name)

        def surrounded(*arguments: Any, **more: Any) -> Any:
            self._pass(f"before {name}")
            result = call(*arguments, **more)
            self._pass(f"after {name}")
            return result

        setattr(owner, name, surrounded)

    def _pass(self, name: str) -> None:
        if len(self.passed) == self._die_at:
            os._exit(DIED)
        self.passed.append(name)


def attached_session(port: int, secret: str) -> SparkSession:
    """The session of another process's JVM."""
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm: Any = gateway.jvm
    context = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf())))


def meet(place: Path) -> None:
    """The first commit waits until another driver is there, too: both have planned on the same versions."""
    commit = PositionedTable.commit

    def first(*arguments: Any, **more: Any) -> None:
        PositionedTable.commit = commit  # type: ignore[method-assign]
        (place / str(os.getpid())).write_text("")
        wait_until(lambda: len(list(place.iterdir())) == 2, 120, "the other driver", every=0.005)
        commit(*arguments, **more)

    PositionedTable.commit = first  # type: ignore[method-assign]


def perform(run: Run, port: int, secret: str, answer: Any) -> None:
    """What the process of one run does. It does not return."""
    points = Failpoints(run.die_at)
    for owner, name in (
        (PositionedTable, "create"),
        (PositionedTable, "add_columns"),
        (PositionedTable, "commit"),
        (PositionedTable, "replace"),
        (Memory, "save"),
        (SparkJobs, "run"),
        (SparkJobs, "run_routed"),
    ):
        points.surround(owner, name)
    if run.meet:
        meet(Path(run.meet))
    if run.die_writing:
        files = set(Path(run.warehouse).rglob("*.parquet"))

        def watch() -> None:
            wait_until(lambda: set(Path(run.warehouse).rglob("*.parquet")) - files, 120, "a new file", every=0.002)
            os._exit(DIED)

        threading.Thread(target=watch, daemon=True).start()
    limits, rules = PartLimits(task_events=run.task_bytes), KeepRules({"*": ["current", "history"]})
    settings = KeepSettings(StorePlace.of(run.log), StorePlace.of(run.warehouse), rules, limits=limits)
    report = keep(settings, lambda: attached_session(port, secret))
    answer.write(json.dumps([[table.error for table in report.set_aside], points.passed]))
    answer.flush()
    os._exit(0)


def main() -> None:
    port, secret = int(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                perform(Run(**json.loads(line)), port, secret, os.fdopen(writing, "w"))
            except BaseException:  # noqa: BLE001  nothing else would show it: the process ends here
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as answer:
            errors, passed = json.loads(answer.read() or "[[], []]")
        _, status = os.waitpid(child, 0)
        ended = Ended(os.waitstatus_to_exitcode(status), errors, passed)
        sys.stdout.write(json.dumps(asdict(ended)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
