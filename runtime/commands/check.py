"""``tidemark check`` and ``tidemark discover``: what can be known before anything is captured."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from protocol.capture_file import CaptureFile, read_capture_file
from protocol.changelog import ChangeLog
from protocol.changelog.layout import COMMITS, HEADER
from protocol.errors import ChangeLogError, TidemarkError
from protocol.logs import LogLine
from runtime.commands.arguments import CaptureFileArgument, JsonOption
from runtime.known_log import KnownLog
from runtime.preparation import Preparation
from runtime.selection import Selection, resource_path


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``code`` and ``remedy`` belong to one that is not as it must be."""

    ok: bool
    message: str
    code: str = ""
    remedy: str = ""


def check(file: CaptureFileArgument, json: JsonOption = False) -> None:
    """Check everything a capture needs, and print all that is wrong at once.

    The capture file, its secrets, the connector, the tables it names, the source's prerequisites, the change log.
    Nothing is changed anywhere. Exit status 1 when something is wrong.
    """
    findings = Checker(read_capture_file(file), KnownLog(file)).run()
    if json:
        report = {"ok": all(finding.ok for finding in findings), "findings": [asdict(one) for one in findings]}
        sys.stdout.write(orjson.dumps(report, option=orjson.OPT_APPEND_NEWLINE).decode())
    else:
        for finding in findings:
            code = f"{finding.code}: " if finding.code else ""
            sys.stdout.write(f"{'ok  ' if finding.ok else 'FAIL'}  {code}{finding.message}\n")
            if finding.remedy:
                sys.stdout.write(f"      what to do: {finding.remedy}\n")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


class Checker:
    """Goes as far as it can, and notes every failure on the way."""

    def __init__(self, file: CaptureFile, known: KnownLog) -> None:
        self._file = file
        self._known = known
        self._findings: list[Finding] = []
        self._errors: list[LogLine] = []

    def run(self) -> list[Finding]:
        self._good(f"the capture file is well-formed: capture {self._file.capture}")
        try:
            self._log()
        except TidemarkError as error:
            self._bad(error)
        try:
            self._source()
        except TidemarkError as error:
            # A connector may name several reasons; the error is the last of them.
            for line in self._errors:
                remedy = str(line.fields.get("remedy", ""))
                self._findings.append(Finding(False, line.message, line.code, remedy))
            self._bad(error)
        return self._findings

    def _log(self) -> None:
        path = self._file.log_path
        try:
            log = ChangeLog(path)
        except ChangeLogError as error:
            if error.code != "TM-LOG-001":
                raise
            self._new_log(path)
            return
        if log.header.capture != self._file.capture:
            raise ChangeLogError("TM-LOG-005", f"{path} is the change log of capture {log.header.capture}")
        self._good(f"the change log at {path} stands at commit {log.summary().number}")

    def _new_log(self, path: Path) -> None:
        if any((path / COMMITS).glob("*.json")):
            raise ChangeLogError("TM-LOG-004", f"{path / HEADER} is missing, and {path} holds commits")
        if log_id := self._known.log_id(path):
            raise ChangeLogError(
                "TM-LOG-013", f"the change log {log_id} is not at {path}, as {self._known.path} remembers"
            )
        folder = next(place for place in (path, *path.parents) if os.path.lexists(place))
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise ChangeLogError("TM-LOG-008", f"cannot make {path}: {folder} is not a directory that can be written")
        self._good(f"the change log will be made at {path}")

    def _source(self) -> None:
        preparation = Preparation(self._file, self._collect)
        spec, discovered = preparation.discover()
        self._good(f"{preparation.connector.name} answers and discovers {len(discovered)} tables")
        selection: Selection | None = None
        try:
            selection = preparation.select(spec, discovered)
        except TidemarkError as error:
            self._bad(error)
        if selection is None:
            return
        self._good(f"{len(selection.tables)} tables are chosen")
        preparation.validate(selection.tables)
        self._good("the source is ready for them")

    def _collect(self, line: LogLine) -> None:
        if line.level in ("error", "fatal"):
            self._errors.append(line)

    def _good(self, message: str) -> None:
        self._findings.append(Finding(True, message))

    def _bad(self, error: TidemarkError) -> None:
        self._findings.append(Finding(False, error.message, error.code, error.remedy))


def discover(file: CaptureFileArgument, json: JsonOption = False) -> None:
    """List the tables that the connector finds, their keys and columns, and which ones the capture file chooses."""
    settings = read_capture_file(file)
    preparation = Preparation(settings, _to_stderr)
    spec, discovered = preparation.discover()
    mistake: TidemarkError | None = None
    chosen: set[str] = set()
    try:
        chosen = {table.name for table in preparation.select(spec, discovered).tables}
    except TidemarkError as error:
        mistake = error  # The list is what helps to mend it: print it first.
    rows: list[dict[str, Any]] = [
        {
            "table": ".".join(resource_path(spec, binding)),
            "captured": ".".join(resource_path(spec, binding)) in chosen,
            "key": binding.key,
            "fallback_key": binding.is_fallback_key,
            "disabled": binding.disable,
            "columns": [name for name in binding.document_schema.get("properties", {}) if name != "_meta"],
        }
        for binding in discovered
    ]
    if json:
        for row in rows:
            sys.stdout.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE).decode())
    else:
        _print_tables(rows)
    if mistake is not None:
        raise mistake


def _print_tables(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("table", "captured", "key", "columns"):
        table.add_column(column, overflow="fold")
    for row in rows:
        key = "none" if row["fallback_key"] else ", ".join(pointer.removeprefix("/") for pointer in row["key"])
        captured = "yes" if row["captured"] else "disabled" if row["disabled"] else "no"
        table.add_row(row["table"], captured, key, ", ".join(row["columns"]))
    Console().print(table, markup=False) if rows else sys.stdout.write("no tables\n")


def _to_stderr(line: LogLine) -> None:
    if line.level in ("warning", "error", "fatal"):
        sys.stderr.write(f"{line.level}: {line.message}\n")
