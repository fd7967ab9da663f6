"""``tidemark status``: whether a capture runs, its state, and the content of its change log."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemark.protocol.changelog.layout import HEADER
from tidemark.protocol.errors import ChangeLogError, TidemarkError
from tidemark.runtime.commands.terminal.arguments import JsonOption
from tidemark.runtime.commands.terminal.printing import print_table, say, say_json, tell_failure
from tidemark.runtime.many_captures.captures_of_folder import capture_files
from tidemark.runtime.progress.failures import status_of
from tidemark.runtime.progress.liveness import Liveness
from tidemark.runtime.progress.quantities import ago, size
from tidemark.runtime.progress.rereads import is_shown, rereads
from tidemark.runtime.status.report import place_of, report_of
from tidemark.runtime.status.verdict import NOT_RUNNING
from tidemark.runtime.status.words import (
    as_of_in_words,
    backfill_in_words,
    behind_in_words,
    consumer_in_words,
    lag_in_words,
    limit_in_words,
    verification_in_words,
    verified_in_words,
    when_in_words,
)

StatusArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|LOG|FOLDER", help="A capture file, a change log's directory, or a folder with capture files."
    ),
]


def status(path: StatusArgument, json: JsonOption = False) -> None:
    """Show the state of the capture, and what its change log holds.

    Whether it runs, how long the source has been unreachable, its last error, its last commit with data, its lag, the
    log that the source retains for it, where the change log begins, how far its consumers are, the progress of each
    table, the tables that are read again with the reason and the cost, those set aside by the capture or by 'tidemark
    materialize', and how far Spark's tables are behind. If the capture does not run, the source is asked what it
    retains. With a folder: of each capture file in it.

    Exit status: 0 all is well, or the capture has ended as caught up; 1 somebody is needed; 3 it does not run.
    """
    if not path.is_dir() or (path / HEADER).exists() or not (files := capture_files(path)):
        raise typer.Exit(_show(path, json=json))
    statuses = set()
    for place, file in enumerate(files):
        if place and not json:
            say("\n")
        try:
            statuses.add(_show(file, json=json))
        except TidemarkError as error:  # The others are shown all the same.
            tell_failure(error, status_of(error), json=json)
            statuses.add(1)
    raise typer.Exit(next((status for status in (1, 3) if status in statuses), 0))


def _show(path: Path, *, json: bool) -> int:
    """Prints the status of one capture, and returns the exit status."""
    now, place = datetime.now(UTC), place_of(path)
    try:
        report, life = report_of(place, now)
    except ChangeLogError as error:
        if error.code != "TM-LOG-001" or path.is_dir():
            raise
        tell_failure(error, NOT_RUNNING, json=json)
        return NOT_RUNNING
    if json:
        say_json(report)
    else:
        say("".join(f"{line}\n" for line in _lines(report, life, now)))
        _print_tables(report)
        say("".join(f"{line}\n" for line in _more_lines(report, now)))
    status: int = report["exit_status"]
    return status


def _lines(report: dict[str, Any], life: Liveness, now: datetime) -> Iterator[str]:
    yield f"capture  {report['capture']}"
    by = f", written last by another capture, whose state is in {report['written_by']}" if report["written_by"] else ""
    yield f"log      {report['log']}{by}"
    yield f"state    {life.in_words(now)}"
    for need in report["needs"]:
        yield f"needs    you: {need}"
    if (mistake := report["file_error"]) is not None:
        yield f"file     not in use: {mistake['code']}: {mistake['message']}"
    if (error := report["error"]) is not None:
        yield f"error    {error['code']}, {when_in_words(error, now)}: {error['message']}"
        if error["passed"] is None and error["remedy"]:
            yield f"         what to do: {error['remedy']}"
    if (full := report["folder_error"]) is not None:
        yield f"folder   {full['code']}: {full['message']}; what the tables do is not known"
        yield f"         what to do: {full['remedy']}"
    if life.state == "running":
        yield f"lag      {lag_in_words(report)}"
    yield from _source(report["retained"], now)
    if (data := report["data"]) is None:
        yield "data     nothing was committed yet"
    else:
        yield f"data     commit {data['commit']}, {ago((now - datetime.fromisoformat(data['time'])).total_seconds())}"
        kept = f", kept from offset {report['first_offset']:,} on" if report["first_offset"] else ""
        yield f"events   {report['events']:,}{kept}"
    for name, one in report["consumers"].items():
        yield f"consumer {name}: {consumer_in_words(one, now)}"
    if report["consumers_unknown"]:
        yield f"consumer unknown: {report['consumers_unknown']}"


def _source(retained: dict[str, Any], now: datetime) -> Iterator[str]:
    then = as_of_in_words(retained, now)
    retains, when = ("retained", f", {then}") if then else ("retains", "")
    if retained["unknown"]:
        yield f"source   cannot be asked what it retains: {retained['unknown']}"
    if retained["bytes"] is not None:
        by = f" {retained['by']}" if retained["by"] else ""
        yield f"source   {retains} {size(retained['bytes'])} of log{by}{limit_in_words(retained)}{when}"
    elif retained["by"]:
        yield f"source   {retains} an unknown amount of log {retained['by']}{when}"
    for failure in retained["failures"]:
        part = "log" if failure["code"].startswith("TM-LOG-") else "source"
        yield f"{part:8} {failure['code']}: {failure['message']}"
        yield f"         what to do: {failure['remedy']}"


def _more_lines(report: dict[str, Any], now: datetime) -> Iterator[str]:
    file = report["file"] or "FILE"
    for name, halted in report["halted"].items():
        yield f"{halted['state'].replace('_', ' ')}: {name}: {halted['error']}"
        if halted["remedy"]:
            yield f"         what to do: {halted['remedy']}"
    for reread in rereads(_progress(report)).values():
        if is_shown(reread, now):
            yield from reread.lines(file, now)
    for name, one in report["spark"].items():
        if one["set_aside"]:
            yield f"set aside by materialize: {name}: {one['set_aside']}"
            yield f"         what to do: {one['remedy']}"
        else:
            yield f"spark    {name}: {behind_in_words(one)}"
    yield from verified_in_words(report["verified"], now)
    yield from verification_in_words(report["verification"], now)
    for name, why in report["dropped"].items():
        yield f"failed: the rows of {name} that a command asked for are not read: {why}"
        forget = f"tidemark resume {shlex.quote(file)} --table {shlex.quote(name)}"
        yield f"         what to do: correct the command and send it again; or forget it: {forget}"
    for why in report["refused"].values():
        yield f"failed: {why}"
    for bad in report["bad_commands"]:
        yield f"warning  {bad['code']}: {bad['message']}; it is not carried out"
        yield f"         what to do: {bad['remedy']}"
    for order in report["commands"]:
        yield f"command {order.get('sequence')} is waiting: {order.get('action')}"


def _progress(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By table, the figures of the capture."""
    progress: dict[str, dict[str, Any]] = (report["progress"] or {}).get("tables", {})
    return progress


def _print_tables(report: dict[str, Any]) -> None:
    progress = _progress(report)
    names = sorted({*report["tables"], *progress})
    if not names:
        return
    rows = []
    for name in names:
        totals = report["tables"].get(name, {"events": 0, "bytes": 0})
        rows.append([name, f"{totals['events']:,}", size(totals["bytes"]), *backfill_in_words(progress.get(name, {}))])
    say("\n")
    print_table(["table"], ["events", "size", "rows", "of about", "left"], rows, "backfill")
