"""``tidemark log``: the content of a change log."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import typer

from tidemark.protocol.changelog import Commit
from tidemark.runtime.commands.arguments import JsonOption, LogArgument, open_log
from tidemark.runtime.commands.printing import say, say_json
from tidemark.runtime.progress.quantities import size

log_commands = typer.Typer(help="Inspect a change log.", no_args_is_help=True)


@log_commands.command("ls")
def list_commits(log: LogArgument, json: JsonOption = False) -> None:
    """List the commits of a change log, oldest first, one per line.

    epoch: the number of the writer, which each start of the capture counts up. offset: the number of the commit's first
    event, counted from 0 over all tables. size: of its files; in memory: of the same rows, not compressed.
    """
    if not json:
        say(
            f"{'commit':>8}  {'time':<23}  {'epoch':>5}  {'offset':>12}  {'events':>9}  {'size':>9}  {'in memory':>9}  "
            "tables\n"
        )
    for commit in open_log(log).commits():
        row = _row(commit)
        if json:
            say_json(row)
            continue
        tables = ", ".join(dict.fromkeys(segment.collection.replace("/", ".") for segment in commit.segments))
        say(
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
