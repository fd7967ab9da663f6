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

from protocol.capture_file import read_capture_file
from protocol.changelog import ChangeLog, Commit
from runtime.commands.arguments import JsonOption, LogArgument
from runtime.progress.live import duration, size
from runtime.progress.status_file import read_status
from runtime.steering.orders import Orders

log_commands = typer.Typer(help="Look into a change log.", no_args_is_help=True)


def status(
    path: Annotated[Path, typer.Argument(metavar="FILE|LOG", help="A capture file, or a change log's directory.")],
    json: JsonOption = False,
) -> None:
    """Show what a change log holds, how old the last commit is, and how far the capture was when it said so last."""
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
    progress = read_status(log.root)
    orders = [order.model_dump(by_alias=True, exclude_defaults=True) for order in Orders(log.root).waiting(0)]
    if json:
        report |= {"progress": progress, "orders": orders}
        sys.stdout.write(orjson.dumps(report, option=orjson.OPT_APPEND_NEWLINE).decode())
        return
    sys.stdout.write(f"capture  {report['capture']}\nlog      {log.root}\n")
    if summary.number < 0:
        sys.stdout.write("nothing was committed yet\n")
        return
    sys.stdout.write(f"commit   {summary.number}, {duration(age)} ago\nevents   {summary.next_offset:,}\n\n")
    tables = (progress or {}).get("tables", {})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("table")
    for column in ("events", "size", "rows", "of about", "left"):
        table.add_column(column, justify="right")
    table.add_column("backfill")
    for name, totals in report["tables"].items():
        table.add_row(name, f"{totals['events']:,}", size(totals["bytes"]), *_backfill(tables.get(name, {})))
    Console().print(table, markup=False)
    if progress is not None:
        sys.stdout.write(f"\nbackfills as the capture (process {progress.get('pid')}) said at {progress.get('time')}\n")
    for order in orders:
        sys.stdout.write(f"order {order.get('sequence')} waits: {order.get('action')}\n")


def _backfill(figures: dict[str, Any]) -> tuple[str, str, str, str]:
    """Rows read, rows in all, time left, and the state of one table's backfill, for people."""
    if "rows_done" not in figures:
        return "", "", "", ""
    estimated = figures.get("rows_estimated")
    left = figures.get("seconds_left")
    state = str(figures.get("state") or ("done" if figures.get("done") else "running"))
    return (
        f"{figures['rows_done']:,}",
        "" if estimated is None else f"{estimated:,}",
        "" if left is None else duration(left),
        f"{state}: {figures['error']}" if figures.get("error") else state,
    )


@log_commands.command("ls")
def list_commits(log: LogArgument, json: JsonOption = False) -> None:
    """List the commits of a change log, the oldest first, one a line."""
    if not json:
        sys.stdout.write(
            f"{'commit':>8}  {'time':<23}  {'epoch':>5}  {'offset':>12}  {'events':>9}  {'size':>9}  {'in memory':>9}  "
            "tables\n"
        )
    for commit in ChangeLog(log).commits():
        if json:
            sys.stdout.write(orjson.dumps(_row(commit), option=orjson.OPT_APPEND_NEWLINE).decode())
            continue
        row = _row(commit)
        tables = ", ".join(dict.fromkeys(segment.collection.replace("/", ".") for segment in commit.segments))
        sys.stdout.write(
            f"{commit.number:>8}  {commit.time.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z     {commit.epoch:>5}  "
            f"{commit.first_offset:>12}  {row['events']:>9}  {size(row['bytes']):>9}  "
            f"{size(row['uncompressed']):>9}  {tables or '-'}\n"
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
        "uncompressed": sum(segment.uncompressed for segment in commit.segments),
        "checkpoints": commit.checkpoints,
        "segments": [segment.path for segment in commit.segments],
    }
