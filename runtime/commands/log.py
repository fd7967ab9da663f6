"""``tidemark log``: the content of a change log, its proof, and its copies."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemark.protocol.changelog import ChangeLog, Commit
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.errors import UsageError
from tidemark.protocol.store.opening import is_url, opened
from tidemark.protocol.text.nearest_names import near
from tidemark.protocol.text.visible import visible
from tidemark.runtime.commands.terminal.arguments import CaptureFileArgument, JsonOption, LogArgument, open_log
from tidemark.runtime.commands.terminal.printing import say, say_aside, say_json
from tidemark.runtime.progress.quantities import duration, size

DeltaOption = Annotated[bool, typer.Option("--delta", help="As Delta tables.")]
TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", metavar="T", help="Only this table; may be given again.", show_default=False),
]

RemoveOption = Annotated[
    str | None, typer.Option("--remove", metavar="NAME", help="Forget this consumer.", show_default=False)
]

log_commands = typer.Typer(help="Inspect, check and copy a change log.", no_args_is_help=True)

CommitArgument = Annotated[int, typer.Argument(metavar="COMMIT", min=0, help="The number of a commit.")]
ToArgument = Annotated[str, typer.Argument(metavar="TO", help="The directory or the URL of the copy.")]
SettingsOption = Annotated[
    Path | None,
    typer.Option("--store-of", metavar="FILE", help="A capture file whose store entry opens TO.", show_default=False),
]


@log_commands.command("ls")
def list_commits(log: LogArgument, json: JsonOption = False) -> None:
    """List the commits of a change log, oldest first, one per line.

    epoch: the number of the writer, which each start of the capture counts up. offset: the number of the commit's first
    event, counted from 0 over all tables. size: of its files; in memory: of the same rows, not compressed. Of compacted
    commits, 100-1099, the first and the last number are given.
    """
    if not json:
        say(
            f"{'commit':>13}  {'time':<23}  {'epoch':>5}  {'offset':>12}  {'events':>9}  {'size':>9}  "
            f"{'in memory':>9}  tables\n"
        )
    for commit in open_log(log).commits():
        row = _row(commit)
        if json:
            say_json(row)
            continue
        numbers = f"{row['first']}-{commit.number}" if "first" in row else commit.number
        tables = ", ".join(dict.fromkeys(segment.collection.replace("/", ".") for segment in commit.segments))
        say(
            f"{numbers:>13}  {commit.time.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z     {commit.epoch:>5}  "
            f"{commit.first_offset:>12}  {row['events']:>9}  {size(row['bytes']):>9}  "
            f"{size(row['uncompressed']):>9}  {tables or '-'}\n"
        )


@log_commands.command("show")
def show(log: LogArgument, commit: CommitArgument) -> None:
    """Print a commit as it is in the log: its segments and their keys, schemas, and the change of the state."""
    found = open_log(log)
    if commit > (newest := found.latest()):
        raise UsageError("TM-CFG-007", f"{found.store.place} has no commit {commit}: its newest is {newest}")
    say(found.commit(commit).model_dump_json(indent=2) + "\n")


@log_commands.command("schemas")
def schemas(log: LogArgument, json: JsonOption = False) -> None:
    """List the tables of a change log: their columns now, their keys, and their generations."""
    summary = open_log(log).summary()
    for collection, totals in sorted(summary.totals.items()):
        schema = summary.schemas[totals.fingerprint]
        generations = summary.generations.get(collection, [])
        if json:
            say_json(
                {
                    "table": collection.replace("/", "."),
                    "events": totals.events,
                    "schema": schema.model_dump(exclude_defaults=True),
                    "generations": [one.model_dump(exclude_defaults=True) for one in generations],
                }
            )
            continue
        say(f"{collection.replace('/', '.')}: {totals.events:,} events, {size(totals.bytes)}\n")
        for column in schema.columns:
            marks = [*(["key"] if column.name in schema.key else []), *(["JSON"] if column.json_text else [])]
            say(f"  {column.name}  {column.type}{''.join(f', {mark}' for mark in marks)}\n")
        for one in generations:
            whole = "is not whole yet" if one.whole is None else f"is whole at {one.whole}"
            say(f"  generation {one.number} begins at {one.begin}, {whole}{one.why and f': {one.why}'}\n")


@log_commands.command("check")
def check(log: LogArgument, json: JsonOption = False) -> None:
    """Read all of a change log, and prove that it is as it was written.

    Commits and how they follow each other, summaries, and of each segment checksums, columns, rows, offsets and keys.
    Each damaged file is named, with the events that are lost. The log may be written meanwhile. Changes nothing.

    Exit status: 0 it is whole, 1 something is damaged.
    """
    from tidemark.runtime.upkeep.log_check import LogCheck  # Arrow takes long to load.

    checking = LogCheck(open_log(log))
    damaged = 0
    for damage in checking.damages():
        damaged += 1
        lost = f"offsets {damage.lost[0]} to {damage.lost[1] - 1}" if damage.lost else ""
        table = damage.collection.replace("/", ".")
        if json:
            known = {"offsets": damage.lost, "events": damage.rows or None, "table": table or None}
            error = {"code": damage.error.code, "message": damage.error.message, "remedy": damage.error.remedy}
            say_json({"damage": error, "lost": known if damage.lost else None})
            continue
        say(f"{damage.error}\n")
        if lost:
            say(f"  lost: {f'{damage.rows:,} events of {table}, {lost}' if table else f'all events of {lost}'}\n")
        say(f"  what to do: {damage.error.remedy}\n")
    found = checking.checked
    if json:
        say_json({**asdict(found), "tables": len(found.tables), "damaged": damaged})
    else:
        say(
            f"{found.commits:,} commits, {found.summaries:,} summaries, {found.segments:,} segments of "
            f"{len(found.tables):,} tables, {found.events:,} events, {size(found.bytes)}\n"
        )
        if found.unnamed and not damaged:
            say(
                f"{found.unnamed:,} files belong to no commit: the capture removes them, at its next start or in time\n"
            )
        say(f"{damaged} findings\n" if damaged else "nothing is damaged\n")
    if damaged:
        raise typer.Exit(1)


@log_commands.command("copy")
def copy(log: LogArgument, to: ToArgument, store_of: SettingsOption = None) -> None:
    """Copy a change log to an empty place, or bring an earlier copy up to date. The log may be written meanwhile.

    The copy is the whole log as of the commit that was the newest at the beginning. A copy that was interrupted is a
    whole log of an earlier commit; the same command resumes it.
    """
    from tidemark.protocol.capture_file import read_capture_file
    from tidemark.runtime.upkeep.log_copy import copy_log

    source: ChangeLog = open_log(log)
    settings = None if store_of is None else read_capture_file(store_of).store_settings
    place = opened(to, settings if is_url(to) else None)
    copied = [0, 0]

    def tell(commit: Commit, copied_bytes: int) -> None:
        copied[0] += 1
        copied[1] += copied_bytes
        if copied[0] % 1000 == 0:
            say_aside(f"commit {commit.number}: {size(copied[1])}\n")

    newest = copy_log(source, place, tell)
    say(f"{place.place} has the log up to commit {newest}: {copied[0]:,} commits and {size(copied[1])} were copied\n")


@log_commands.command("compact")
def compact(file: CaptureFileArgument) -> None:
    """Make few large files of the many small ones of a change log, with the same events under the same offsets.

    What the entry ``retain`` of the capture file does not keep any more is removed, too. A capture does both by itself;
    if it runs, it is asked to do it now. Files stay for the grace of the entry ``compact``: then they are deleted.
    """
    from tidemark.protocol.capture_file import read_capture_file
    from tidemark.runtime.upkeep.log_compact import compact_log

    found = compact_log(read_capture_file(file), lambda error: say_aside(f"{error}\n"))
    say(
        f"{found.place} has {found.newest + 1 - found.start:,} commits in {found.files:,} files: {found.commits:,} are "
        f"compacted, {found.new:,} more than before\n"
    )
    if found.start:
        say(f"it begins with commit {found.start:,}: earlier ones are not kept\n")


@log_commands.command("consumers")
def consumers(log: LogArgument, remove: RemoveOption = None, json: JsonOption = False) -> None:
    """List the readers that a change log knows, the one that is furthest behind first.

    A log with the entry ``retain`` keeps what they have not read. position: a reader needs nothing below this offset.
    behind: the events after that, and since when they wait. One that is gone for good is removed by --remove.
    """
    from tidemark.protocol.changelog.consumers import consumers as registered
    from tidemark.protocol.changelog.consumers import forget
    from tidemark.runtime.progress.log_consumers import consumer_lags

    found = open_log(log)
    if remove is not None:
        if remove not in (known := [one.name for one in registered(found.store)]) or not forget(found.store, remove):
            raise UsageError("TM-CFG-007", f"{found.store.place} has no consumer {remove}{near(remove, known)}")
        say(f"{remove} is removed: {found.store.place} does not wait for it any more\n")
        return
    now, lags = datetime.now(UTC), consumer_lags(found)
    if not json:
        say(f"{'position':>12}  {'behind':>22}  {'seen':>8}  consumer\n" if lags else "no consumers\n")
    for one in lags:
        if json:
            say_json(asdict(one))
            continue
        waits = "" if one.since is None else f" for {duration((now - one.since).total_seconds())}"
        seen = duration((now - one.seen).total_seconds())
        say(f"{one.position:>12,}  {f'{one.behind:,}{waits}':>22}  {seen:>8}  {visible(one.name)}\n")


@log_commands.command("export")
def export(log: LogArgument, delta: DeltaOption = False, table: TablesOption = None, json: JsonOption = False) -> None:
    """Let other programs read the events: make a Delta table of each table's segments, without a copy.

    It lies where the segments of the table are, and has its last generation that is whole. The same command brings it
    up to date: give it again for later events, and at least once in the grace of compaction, since files that others
    stand for are deleted then. Other programs can read the Delta table, and cannot write it.

    Exit status: 0 all tables are exported, 1 one could not be.
    """
    if not delta:
        raise UsageError("TM-CFG-007", "tidemark log export needs --delta: there is no other form yet")
    from tidemark.spark_sink.formats.log_export import export as exported
    from tidemark.spark_sink.source.log_path import log_and_warehouse

    place, _ = log_and_warehouse(log)
    opened_log = ChangeLog(place.store)
    known = {name.replace("/", "."): name for name in opened_log.summary().totals}
    if unknown := [name for name in table or () if name.replace("/", ".") not in known]:
        near_ones = near(unknown[0], list(known))
        raise UsageError("TM-CFG-007", f"{place} has no events of a table {unknown[0]}{near_ones}")
    wanted = [known[name.replace("/", ".")] for name in table] if table else sorted(set(known.values()) - {QUARANTINE})
    failed = False
    for one in exported(opened_log, place, wanted):
        failed |= one.error is not None
        name = one.collection.replace("/", ".")
        if json:
            error = one.error and {"code": one.error.code, "message": one.error.message, "remedy": one.error.remedy}
            row = {"files": one.files, "added": one.added, "removed": one.removed, "error": error}
            say_json({"table": name, "delta": str(one.place), **row})
        elif one.error is not None:
            say(f"{one.error}\n  what to do: {one.error.remedy}\n")
        else:
            say(f"{name}: {one.files:,} files, {one.added:,} new, {one.removed:,} gone: {one.place}\n")
    if failed:
        raise typer.Exit(1)


def _row(commit: Commit) -> dict[str, Any]:
    return {
        **({"first": commit.first} if isinstance(commit, CompactedCommit) else {}),
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
