"""Checks with one tiny job whether executors on other machines have what the work needs."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.spark.failures import spark_exceptions, tidemark_error
from tidemark.spark_sink.spark.session import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYARROW_AT_LEAST = 18

_IMPORTED = ("pyarrow", "tidemark.spark_sink.changes.net_changes", "tidemark.spark_sink.source.segment_reader")
"""What executors import to do a part's work, the most basic first."""

_ROWS = 1000
"""Spread over as many tasks as Spark makes by itself: one for each core that it has now."""


def check_executors(session: SparkSession, *, in_objects: bool = False) -> None:
    """Makes sure that executors have the driver's Python version, pyarrow, and this package in the driver's version.

    The same goes for obstore, if log or tables are in an object store. Nothing is asked where executors are threads of
    the driver's own JVM: their Python is this one.

    Raises:
        SparkError: ``TM-SPK-020`` naming each host and what it lacks; ``TM-SPK-013`` when Spark failed otherwise.
    """
    if is_local(session):
        return
    from pyspark.sql.functions import udf

    # A plain function of rows: Spark's own Arrow functions fail where pyarrow is missing, and do not say on which host.
    ask = udf(_question((*_IMPORTED, "obstore") if in_objects else _IMPORTED), "array<string>", useArrow=False)
    try:
        answers = {tuple(row[0]) for row in session.range(_ROWS).select(ask("id")).collect()}
    except spark_exceptions() as error:
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
