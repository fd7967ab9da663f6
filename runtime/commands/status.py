"""``tidemark status``: whether a capture runs, its state, and the content of its change log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tidemark.protocol.capture_file import CaptureFile, read_capture_file
from tidemark.protocol.changelog import ChangeLog
from tidemark.runtime.commands.arguments import JsonOption, LogArgument
from tidemark.runtime.commands.printing import print_table, say, say_json
from tidemark.runtime.progress.liveness import Liveness, liveness, time_of
from tidemark.runtime.progress.quantities import duration, size
from tidemark.runtime.progress.rereads import is_shown, rereads
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.steering.orders import Orders

HALTED = ("set_aside", "failed")
"""States of tables that a person must look at."""


def status(path: LogArgument, json: JsonOption = False) -> None:
    """Show the state of the capture, and what its change log holds.

    Whether it runs, how long the source has been unreachable, its last error, its last commit with data, its lag, the
    progress of each table, the tables that are read again with the reason and the cost, and those set aside by the
    capture or by 'tidemark materialize'.
    """
    file = None if path.is_dir() else read_capture_file(path)
    log = ChangeLog(path if file is None else file.log_path)
    now = datetime.now(UTC)
    progress = read_status(log.root)
    life = liveness(progress, now)
    report = _report(log, file, progress, life, now)
    if json:
        say_json(report)
        return
    _print(report, life, now)


def _report(
    log: ChangeLog, file: CaptureFile | None, progress: dict[str, Any] | None, life: Liveness, now: datetime
) -> dict[str, Any]:
    summary = log.summary()
    said = progress or {}
    return {
        "capture": log.header.capture,
        "file": None if file is None else str(file.path),
        "log": str(log.root),
        "log_id": log.header.log_id,
        "state": life.state,
        "running": life.running,
        "since": None if life.since is None else life.since.isoformat(),
        "pid": life.pid or None,
        "source_away_since": said.get("source_away_since") if life.running else None,
        "error": said.get("error"),
        "lag_seconds": said.get("lag_seconds") if life.state == "running" else None,
        "caught_up": bool(said.get("caught_up")) if life.state == "running" else None,
        "commit": summary.number,
        "committed": summary.time.isoformat(),
        "age_seconds": round((now - summary.time).total_seconds(), 3),
        "data": _last_with_data(log, summary.next_offset, now),
        "events": summary.next_offset,
        "set_aside": _set_aside(said),
        "rereads": {name: one.as_json() for name, one in rereads(said.get("tables", {})).items()},
        "spark_set_aside": {} if file is None else _set_aside_by_spark(file, log),
        "tables": {
            name.replace("/", "."): {"events": totals.events, "bytes": totals.bytes}
            for name, totals in sorted(summary.totals.items())
        },
        "progress": progress,
        "refused": {number: why for number, why in said.get("commands", {}).items() if why},
        "orders": [order.model_dump(by_alias=True, exclude_defaults=True) for order in Orders(log.root).waiting(0)],
    }


def _last_with_data(log: ChangeLog, end: int, now: datetime) -> dict[str, Any] | None:
    """The newest commit that has events; None while there is none."""
    if end == 0:
        return None
    commit = log.commit(log.commit_with_offset(end - 1))
    age = (now - commit.time).total_seconds()
    return {"commit": commit.number, "time": commit.time.isoformat(), "age_seconds": round(age, 3)}


def _set_aside(said: dict[str, Any]) -> dict[str, str]:
    tables = said.get("tables", {})
    return {name: str(one.get("error") or "") for name, one in tables.items() if one.get("state") in HALTED}


def _set_aside_by_spark(file: CaptureFile, log: ChangeLog) -> dict[str, str]:
    if file.spark is None:
        return {}
    from tidemark.spark_sink.pipeline.memory import Memory, memory_path

    known = Memory.load(memory_path(file.folder / file.spark.warehouse, log.header.log_id)).tables
    return {
        name.replace("/", "."): f"{one.set_aside.code}: {one.set_aside.message}"
        for name, one in sorted(known.items())
        if one.set_aside is not None
    }


def _print(report: dict[str, Any], life: Liveness, now: datetime) -> None:
    say(f"capture  {report['capture']}\nlog      {report['log']}\nstate    {_in_words(life, now)}\n")
    if (error := report["error"]) is not None:
        say(f"error    {error['code']}, {_when(error, now)}: {error['message']}\n")
        if error["passed"] is None and error["remedy"]:
            say(f"         what to do: {error['remedy']}\n")
    if life.state == "running":
        say(f"lag      {'0 s, caught up' if report['caught_up'] else duration(report['lag_seconds'])}\n")
    if (data := report["data"]) is None:
        say("data     nothing was committed yet\n")
    else:
        say(f"data     commit {data['commit']}, {duration(data['age_seconds'])} ago\n")
        say(f"events   {report['events']:,}\n")
    _print_tables(report)
    for reread in rereads(_progress(report)).values():
        if is_shown(reread, now):
            say("".join(f"{line}\n" for line in reread.lines(report["file"] or "FILE", now)))
    for name, text in report["spark_set_aside"].items():
        say(f"set aside by materialize: {name}: {text}\n")
    for why in report["refused"].values():
        say(f"failed: {why}\n")
    for order in report["orders"]:
        say(f"command {order.get('sequence')} is waiting: {order.get('action')}\n")


def _in_words(life: Liveness, now: datetime) -> str:
    ago = duration((now - life.since).total_seconds()) if life.since else "an unknown time"
    match life.state:
        case "running":
            return f"running (process {life.pid}) for {ago}"
        case "waiting for the source":
            return f"running (process {life.pid}), but the source has been unreachable for {ago}"
        case "connector silent":
            return f"running (process {life.pid}), but its connector has sent nothing for {ago}"
        case "not answering":
            return f"NOT ANSWERING: process {life.pid} exists, but has not written its status for {ago}"
        case "unknown" if life.since is None:
            return "NOT RUNNING: no capture has run here yet"
        case "unknown":
            return f"NOT RUNNING here: a capture on another machine last wrote its status {ago} ago"
        case "killed":
            return f"NOT RUNNING: process {life.pid} was killed; it last wrote its status {ago} ago"
        case outcome:
            return f"NOT RUNNING: {outcome} {ago} ago"


def _when(error: dict[str, Any], now: datetime) -> str:
    last, since, passed = (time_of(error.get(name)) for name in ("time", "since", "passed"))
    words = f"{duration((now - last).total_seconds())} ago" if last else ""
    if passed is not None:
        return f"{words}, now resolved"
    return f"{words}, since {duration((now - since).total_seconds())}" if since and since != last else words


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
        rows.append([name, f"{totals['events']:,}", size(totals["bytes"]), *_backfill(progress.get(name, {}))])
    say("\n")
    print_table(["table"], ["events", "size", "rows", "of about", "left"], rows, "backfill")


def _waiting(state: str, waits_for: str | None) -> str:
    return f"{state} for {waits_for}" if state == "waiting" and waits_for else state


def _backfill(figures: dict[str, Any]) -> tuple[str, str, str, str]:
    """Rows read, estimated rows, time left, and the state of one table's backfill, as text."""
    if "rows_done" not in figures:
        return "", "", "", ""
    estimated = figures.get("rows_estimated")
    left = figures.get("seconds_left")
    state = str(figures.get("state") or ("done" if figures.get("done") else "running")).replace("_", " ")
    return (
        f"{figures['rows_done']:,}",
        "" if estimated is None else f"{estimated:,}",
        "" if left is None else duration(left),
        f"{state}: {figures['error']}" if figures.get("error") else _waiting(state, figures.get("waits_for")),
    )
