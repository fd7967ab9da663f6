"""Checks with one tiny job whether executors on other machines have what the work needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.spark.failures import spark_exceptions, tidemark_error
from tidemark.spark_sink.spark.spark_session import cancel_jobs, is_local, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYARROW_AT_LEAST = 18

_IMPORTED = ("pyarrow", "tidemark.spark_sink.changes.net_changes", "tidemark.spark_sink.source.segment_reader")
"""What executors import to do a part's work, the most basic first."""

_ROWS = 1000
"""Spread over as many tasks as Spark makes by itself: one for each core that it has now."""


def checked_session(
    master: str | None, conf: Mapping[str, str], *, in_objects: bool = False, seconds: float | None = None
) -> tuple[SparkSession, bool]:
    """A session whose executors have what the work needs, and whether it is ours to stop.

    Args:
        master: As of ``open_session``.
        conf: As of ``open_session``.
        in_objects: As of ``check_executors``.
        seconds: As of ``check_executors``.

    Raises:
        SparkError: As ``open_session`` and ``check_executors``.
    """
    session, ours = open_session(master, conf)
    try:
        check_executors(session, in_objects=in_objects, seconds=seconds)
    except BaseException:
        if ours:
            session.stop()
        raise
    return session, ours


def check_executors(session: SparkSession, *, in_objects: bool = False, seconds: float | None = None) -> None:
    """Makes sure that executors have the driver's Python version, pyarrow, and this package in the driver's version.

    The same goes for obstore, if log or tables are in an object store. Nothing is asked where executors are threads of
    the driver's own JVM: their Python is this one.

    Args:
        session: To ask.
        in_objects: Log or tables are in an object store.
        seconds: How long the answer may take; None for as long as it takes.

    Raises:
        SparkError: ``TM-SPK-020`` naming each host and what it lacks; ``TM-SPK-013`` when none answered in time, or
            Spark failed otherwise.
    """
    if is_local(session):
        return
    from pyspark.sql.functions import udf

    # A plain function of rows: Spark's own Arrow functions fail where pyarrow is missing, and do not say on which host.
    ask = udf(_question((*_IMPORTED, "obstore") if in_objects else _IMPORTED), "array<string>", useArrow=False)
    with _cancelled_after(session, seconds) as is_late:
        try:
            answers = {tuple(row[0]) for row in session.range(_ROWS).select(ask("id")).collect()}
        except spark_exceptions() as error:
            if is_late.is_set():
                raise SparkError(
                    "TM-SPK-013",
                    f"no executor of the cluster has answered within {seconds:g} s",
                    remedy="Look whether other applications have all of its cores: spark.cores.max bounds each.",
                ) from None
            raise tidemark_error(error) from error
    ours = _version()
    faults = set()
    for host, pyarrow, tidemark, lacks in answers:
        if lacks:
            faults.add(f"{host} lacks {lacks}")
        elif int(pyarrow.split(".")[0]) < _PYARROW_AT_LEAST:
            faults.add(f"{host} has pyarrow {pyarrow}")
        elif tidemark and ours and tidemark != ours:
            faults.add(f"{host} has tidemark {tidemark}, the driver {ours}")
    if faults:
        raise SparkError("TM-SPK-020", "; ".join(sorted(faults)))


@contextmanager
def _cancelled_after(session: SparkSession, seconds: float | None) -> Iterator[threading.Event]:
    """Cancels the session's jobs when the time is over, and then sets the event."""
    is_late = threading.Event()

    def cancel() -> None:
        is_late.set()
        cancel_jobs(session)

    timer = threading.Timer(seconds or 0, cancel)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()


def _version() -> str:
    try:
        return version("tidemark")
    except PackageNotFoundError:  # As a zip that Spark brought along: then it is the driver's own.
        return ""


def _question(modules: tuple[str, ...]) -> Callable[[int], list[str]]:
    # A function inside another travels by value: one of this module would need the module on the other side, and
    # whether that is there is the question.
    def ask(_: int) -> list[str]:
        import contextlib
        import importlib
        import importlib.metadata
        import platform

        host, pyarrow, tidemark = platform.node(), "", ""
        for module in modules:
            try:
                found = importlib.import_module(module)
            except ModuleNotFoundError as error:
                return [host, pyarrow, tidemark, f"the Python package {error.name}"]
            except ImportError as error:
                return [host, pyarrow, tidemark, str(error)]
            if module == "pyarrow":
                pyarrow = found.__version__
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            tidemark = importlib.metadata.version("tidemark")
        return [host, pyarrow, tidemark, ""]

    return ask
