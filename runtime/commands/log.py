"""``tidemark status`` and ``tidemark log``: what stands in a change log."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from protocol.changelog import ChangeLog, Commit
from runtime.capture_file import read_capture_file
from runtime.commands.arguments import JsonOption, LogArgument
from runtime.progress.live import duration, size

log_commands = typer.Typer(help="Look into a change log.", no_args_is_help=True)


def status(
    path: Annotated[Path, typer.Argument(metavar="FILE|LOG", help="A capture file, or a change log's directory.")],
    json: JsonOption = False,
) -> None:
    """Show what a change log holds: its tables, events and sizes, and how old the last commit is."""
    log = ChangeLog(path if path.is_dir() else read_capture_file(path).log_path)
    summary = log.summary()
    age = (datetime.now(UTC) - summary.time).total_seconds()
    report: dict[str, Any] = {
        "capture": log.header.capture,
        "log": str(log.root),
        "log_id": log.header.log_id,
        "commit": summary.number,
        "committed": summary.time.isoformat(),
        "age_seconds": round(age, 3),
        "events": summary.next_offset,
        "tables": {
            name.replace("/", "."): {"events": totals.events, "bytes": totals.bytes}
            for name, totals in sorted(summary.totals.items())
        },
    }
    if json:
        sys.stdout.write(orjson.dumps(report, option=orjson.OPT_APPEND_NEWLINE).decode())
        return
    sys.stdout.write(f"capture  {report['capture']}\nlog      {log.root}\n")
    if summary.number < 0:
        sys.stdout.write("nothing was committed yet\n")
        return
    sys.stdout.write(f"commit   {summary.number}, {duration(age)} ago\nevents   {summary.next_offset:,}\n\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("table")
    table.add_column("events", justify="right")
    table.add_column("size", justify="right")
    for name, totals in report["tables"].items():
        table.add_row(name, f"{totals['events']:,}", size(totals["bytes"]))
    Console().print(table, markup=False)


@log_commands.command("ls")
def list_commits(log: LogArgument, json: JsonOption = False) -> None:
    """List the commits of a change log, the oldest first, one a line."""
    if not json:
        sys.stdout.write(
            f"{'commit':>8}  {'time':<23}  {'epoch':>5}  {'offset':>12}  {'events':>9}  {'size':>9}  tables\n"
        )
    for commit in ChangeLog(log).commits():
        if json:
            sys.stdout.write(orjson.dumps(_row(commit), option=orjson.OPT_APPEND_NEWLINE).decode())
            continue
        row = _row(commit)
        tables = ", ".join(dict.fromkeys(segment.collection.replace("/", ".") for segment in commit.segments))
        sys.stdout.write(
            f"{commit.number:>8}  {commit.time.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z     {commit.epoch:>5}  "
            f"{commit.first_offset:>12}  {row['events']:>9}  {size(row['bytes']):>9}  {tables or '-'}\n"
        )


def _row(commit: Commit) -> dict[str, Any]:
    return {
        "commit": commit.number,
        "time": commit.time.isoformat(),
        "epoch": commit.epoch,
        "first_offset": commit.first_offset,
        "next_offset": commit.next_offset,
        "events": commit.next_offset - commit.first_offset,
        "bytes": sum(segment.size for segment in commit.segments),
        "checkpoints": commit.checkpoints,
        "segments": [segment.path for segment in commit.segments],
    }
