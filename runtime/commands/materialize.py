"""``tidemark materialize``: the Spark job that keeps tables from the change log."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import asdict
from typing import Annotated

import orjson
import typer

from protocol.capture_file import read_capture_file
from protocol.errors import TidemarkError, UsageError
from protocol.logs import log_to_stderr
from runtime.commands.arguments import CaptureFileArgument, JsonOption
from runtime.interruption import Interruption

AvailableNowOption = Annotated[
    bool, typer.Option("--available-now", help="Apply what the log holds now, and end; otherwise go on as it grows.")
]


def materialize(file: CaptureFileArgument, available_now: AvailableNowOption = False, json: JsonOption = False) -> None:
    """Keep Spark tables from the change log, as the capture file's spark entry says.

    Starts where the last run stopped; every event is applied exactly once.
    """
    settings = read_capture_file(file)
    if settings.spark is None:
        raise UsageError(
            "TM-CFG-002",
            f"{file} has no spark entry, which says what tables to keep and where",
            remedy="Add for example:   spark: {warehouse: ./lake, tables: {'*': current}}",
        )
    try:
        from spark_sink.pipeline import materialize as job
    except ModuleNotFoundError as error:
        raise TidemarkError(
            "TM-RUN-012",
            f"materialize needs the Python package {error.name}",
            remedy="pip install 'tidemark[spark]'",
        ) from None
    log_to_stderr(os.environ.get("LOG_LEVEL", "info"))
    # It tells of every call, and prints the trace of each exception that passes it, which is raised here as well.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with Interruption():
        report = job.materialize(
            settings.log_path,
            settings.folder / settings.spark.warehouse,
            {table: list(modes) for table, modes in settings.spark.tables.items()},
            settings.spark.format,
            available_now,
        )
    if json:
        sys.stdout.write(orjson.dumps(asdict(report), default=str, option=orjson.OPT_APPEND_NEWLINE).decode())
        return
    for kept in report.tables:
        sys.stdout.write(
            f"{kept.table} {kept.kind}: {kept.rows:,} rows, {kept.events:,} events applied, in {kept.path}\n"
        )
    sys.stdout.write(f"applied the log up to offset {report.end_offset:,} in {report.seconds:.1f} s\n")
