"""What the ``materialize`` command prints: plan, progress, result; as text for people or as JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import orjson

from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.text.visible import visible, visible_json
from tidemark.spark_sink.pipeline.memory import SEEN_AT_OPENING
from tidemark.spark_sink.run.figures import count, duration, size
from tidemark.spark_sink.run.report import Applied, Cost, KeptTable, MaterializeReport, PlannedPart


class TextOutput:
    """Text. Names are never truncated: they may be what is searched for."""

    def __init__(self, out: TextIO, errors: TextIO) -> None:
        self._out = out
        self._errors = errors

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        width = max((len(_name(part)) for part in parts), default=0)
        for part in parts:
            why = f" ({part.reason})" if part.reason else ""
            self._say(
                f"plan  {_name(part):{width}}  {part.way}{why}: {count(part.events, 'event')}, {size(part.bytes)}, "
                f"{count(part.files, 'file')} of the table"
            )

    def applied(self, applied: Applied) -> None:
        part = applied.part
        events = count(part.events, "event")
        self._say(f"done  {_name(part)}  {events} up to offset {part.end:,}, {_cost(applied.cost)}")

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        _print(
            self._errors,
            f"error {error.code}: {visible(table)} {kind} is set aside: {visible(error.message)}\n"
            f"  what to do: {_remedy(table, error)}\n",
        )

    def result(self, report: MaterializeReport) -> None:
        """Ends with a shell command that shows rows of a table, if there is a table."""
        width = max((len(_name(kept)) for kept in report.tables), default=0)
        for kept in report.tables:
            if not kept.error:
                self._say(f"kept  {_name(kept):{width}}  {_state(kept)}")
        for kept in report.set_aside:
            self._say(f"aside {_name(kept):{width}}  {_state(kept)}: {visible(kept.error or '')}")
        self._say(
            f"{count(report.events, 'event')} applied, the log up to offset {report.end_offset:,}, "
            f"in {_cost(report.cost, report.seconds)}"
        )
        if read := reading(report.tables):
            table, line = read
            self._say(f"rows of {_name(table)}:")
            # As it is: it holds nothing that steers a terminal, and is to be pasted.
            self._say(line)

    def _say(self, line: str) -> None:
        _print(self._out, line + "\n")


class JsonOutput:
    """One object at the end; progress as lines on stderr."""

    def __init__(self, out: TextIO, errors: TextIO) -> None:
        self._out = out
        self._errors = errors

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        for part in parts:
            self._line({"eventType": "materializePlanned", **asdict(part)})

    def applied(self, applied: Applied) -> None:
        self._line({"eventType": "materializeApplied", **asdict(applied.part), "cost": asdict(applied.cost)})

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        fault = {"code": error.code, "message": error.message, "remedy": _remedy(table, error)}
        self._line({"eventType": "materializeSetAside", "table": table, "kind": kind, **fault})

    def result(self, report: MaterializeReport) -> None:
        body = {**asdict(report), "events": report.events, "cost": asdict(report.cost)}
        read = reading(report.tables)
        body["read"] = read[1] if read else None
        _print(self._out, _json(body))

    def _line(self, body: dict[str, object]) -> None:
        _print(self._errors, _json(body))


def reading(tables: Sequence[KeptTable]) -> tuple[KeptTable, str] | None:
    """A table that can be read, and the line that shows its first rows: this Python, and nothing that it lacks."""
    readable = [table for table in tables if table.rows is not None and not table.error]
    # What opens an object store may be secret, and is in no line.
    readable = [table for table in readable if isinstance(table.path, Path)]
    if not readable:
        return None
    # Rather one with something in it, and rather a current state than a history.
    table = min(readable, key=lambda one: (not one.rows, one.kind != "current", one.table))
    # ascii() escapes whatever a terminal or a shell would not take as it is.
    path = ascii(str(table.path))
    if "'" not in path[1:-1] and '"' not in path:
        path = f'"{path[1:-1]}"'  # reads better inside the shell's own quotes
    # A query, and not Arrow's dataset, whose threads may still read ahead when Python ends, and abort it.
    query = f'QueryBuilder().register("t", DeltaTable({path})).execute("SELECT * FROM t LIMIT 5").read_all()'
    code = f'from deltalake import *; import pyarrow; print(*pyarrow.table({query}).to_pylist(), sep="\\n")'
    return table, f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def _print(to: TextIO, text: str) -> None:
    to.write(text)
    to.flush()


def _name(of: PlannedPart | KeptTable) -> str:
    return f"{visible(of.table)} {of.kind}"


def _state(kept: KeptTable) -> str:
    rows = "no table" if kept.rows is None else count(kept.rows, "row")
    behind = ""
    if kept.behind:
        behind = f", {count(kept.behind, 'event')} and {duration(kept.stale_seconds)} behind"
    work = f"; {count(kept.events, 'event')} in {_cost(kept.cost)}" if kept.events else "; up to date"
    if kept.behind and not kept.events:
        work = ""
    waits = f"; {visible(kept.waits)}" if kept.waits else ""
    return f"{rows} at offset {kept.position:,}{behind}{work}, in {visible(str(kept.path))}{waits}"


def _cost(cost: Cost, seconds: float | None = None) -> str:
    return (
        f"{duration(cost.seconds if seconds is None else seconds)} ({cost.cpu_seconds:.1f} CPU-s, "
        f"{size(cost.bytes_read)} read, {size(cost.bytes_written)} written)"
    )


def _remedy(table: str, error: TidemarkError) -> str:
    if error.code in SEEN_AT_OPENING:
        return error.remedy
    return f"{error.remedy} Then run again with --retry {shlex.quote(visible(table))}."


def _json(body: dict[str, object]) -> str:
    return visible_json(orjson.dumps(body, default=str, option=orjson.OPT_APPEND_NEWLINE).decode())
