"""``tidemark check`` and ``tidemark discover``: checks before anything is captured."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemark.protocol.capture_file import CaptureFile, read_capture_file
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import COMMITS, HEADER
from tidemark.protocol.changelog.models import Summary
from tidemark.protocol.environment import CHECK
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import ChangeLogError, TidemarkError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import OPTIONAL_SQL
from tidemark.runtime.commands.arguments import CaptureFileArgument, JsonOption
from tidemark.runtime.commands.fix_sql import Fix, OptionalPart, script
from tidemark.runtime.commands.printing import print_table, say, say_aside, say_json
from tidemark.runtime.preparation.known_tables import put_back
from tidemark.runtime.preparation.prepared_capture import Preparation
from tidemark.runtime.preparation.selection import Selection, resource_path
from tidemark.runtime.progress.failures import FAILED_FOR_NOW
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.quantities import size
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.sessions.known_log import KnownLog

MARKS = {"ok": "ok  ", "warning": "warn", "failure": "FAIL"}

_OWN_NAMES = ("localhost", "127.0.0.1", "::1")

LEAST_FREE_BYTES = 16 * 1024 * 1024
"""With less space than this the next commits fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``code`` and ``remedy`` belong to a check that failed.

    Attributes:
        level: ``ok``; ``warning`` for what a person should know; ``failure`` for what prevents the capture.
        policy: Whether a failure may pass by itself; None if that is unknown, and if nothing failed.
    """

    ok: bool
    message: str
    code: str = ""
    remedy: str = ""
    level: str = "ok"
    policy: Policy | None = None


FixSqlOption = Annotated[
    bool,
    typer.Option("--fix-sql", help="Print the statements that fix what is missing, and optional ones, as a script."),
]


def check(file: CaptureFileArgument, json: JsonOption = False, fix_sql: FixSqlOption = False) -> None:
    """Check everything that a capture needs, and print all problems at once.

    Checks the capture file, its secrets, the connector, the tables, the source's prerequisites and the change log.
    Changes nothing. Exit status: 1 when something is wrong, 3 when all problems may pass by themselves.
    """
    checker = Checker(read_capture_file(file), KnownLog(file))
    findings = checker.run()
    if json:
        report = {"ok": all(finding.ok for finding in findings), "findings": [asdict(one) for one in findings]}
        say_json({**report, "sql": checker.fix_sql()} if fix_sql else report)
    elif fix_sql:
        say(checker.fix_sql())
    else:
        for finding in findings:
            code = f"{finding.code}: " if finding.code else ""
            say(f"{MARKS[finding.level]}  {code}{finding.message}\n")
            if finding.remedy:
                say(f"      what to do: {finding.remedy}\n")
    if failures := [finding for finding in findings if not finding.ok]:
        passes = all(one.policy is Policy.RETRY for one in failures)
        raise typer.Exit(FAILED_FOR_NOW if passes else 1)


class Checker:
    """Checks as much as it can, and records every failure."""

    def __init__(self, file: CaptureFile, known: KnownLog) -> None:
        self._file = file
        self._known = known
        self._findings: list[Finding] = []
        self._errors: list[LogLine] = []
        self._optional: list[OptionalPart] = []
        self._summary: Summary | None = None
        self._log_id = ""
        self._running = False

    def run(self) -> list[Finding]:
        self._good(f"the capture file is well-formed: capture {self._file.capture}")
        entry = self._file.connector
        if entry.image is not None and entry.network != "host" and entry.config.get("host") in _OWN_NAMES:
            self._warn(
                f"connector.config.host is {entry.config['host']}; inside a container that is the container itself",
                remedy="Set connector.network: host, or give a host name that containers can reach.",
            )
        try:
            self._log()
        except TidemarkError as error:
            self._bad(error)
        try:
            self._source()
        except TidemarkError as error:
            # A connector may name several reasons; the error is the last of them.
            for line in self._errors:
                self._findings.append(Finding(False, line.message, line.code, line.remedy, "failure", line.policy))
            self._bad(error)
        return self._findings

    def fix_sql(self) -> str:
        """The statements that fix what was found, and optional ones, as a script."""
        found = [each for each in self._findings if each.remedy]
        return script([Fix(f"{each.code}: {each.message}", each.remedy) for each in found], self._optional)

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
        self._check_writable(path)
        self._summary, self._log_id = log.summary(), log.header.log_id
        self._good(f"the change log at {path} is at commit {self._summary.number}")
        life = liveness(read_status(path))
        self._running = life.running
        if self._running:
            self._good(f"the capture is running (process {life.pid}): {life.state}")

    def _new_log(self, path: Path) -> None:
        if any((path / COMMITS).glob("*.json")):
            raise ChangeLogError("TM-LOG-004", f"{path / HEADER} is missing, but {path} holds commits")
        if log_id := self._known.log_id(path):
            raise ChangeLogError(
                "TM-LOG-013", f"the change log {log_id}, recorded in {self._known.path}, is not at {path}"
            )
        folder = next(place for place in (path, *path.parents) if os.path.lexists(place))
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise ChangeLogError("TM-LOG-008", f"cannot create {path}: {folder} is not a writable directory")
        self._check_space(folder)
        self._good(f"the change log will be created at {path}")

    def _check_writable(self, path: Path) -> None:
        for folder in (path, path / COMMITS):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise ChangeLogError("TM-LOG-008", f"this user cannot write {folder}, or its disk is read-only")
        self._check_space(path)

    def _check_space(self, folder: Path) -> None:
        free = shutil.disk_usage(folder).free
        if free < LEAST_FREE_BYTES:
            raise ChangeLogError("TM-LOG-008", f"the disk of {folder} has {size(free)} left")
        most = self._file.commit.bytes
        if free < 2 * most:
            self._warn(f"the disk of {folder} has {size(free)} left, and a commit may take {size(most)}")

    def _source(self) -> None:
        state = None if self._summary is None else self._summary.state
        # What a connector says of optional statements is of the level info.
        variables = {CHECK: "running" if self._running else "1", "LOG_LEVEL": "info"}
        preparation = Preparation(self._file, self._collect, variables=variables, log_id=self._log_id, state=state)
        spec, discovered = preparation.discover()
        self._good(f"{preparation.connector.name} answered and discovered {len(discovered)} tables")
        selection: Selection | None = None
        try:
            selection = preparation.select(spec, discovered)
        except TidemarkError as error:
            self._bad(error)
        if selection is None:
            preparation.validate([])  # A user who may do nothing sees no table, either: the rest is said, too.
            return
        self._good(f"{len(selection.tables)} tables are selected")
        for warning in selection.warnings:
            self._warn(warning)
        for name in [] if self._summary is None else put_back(self._file.log_path, selection.found, self._summary):
            self._warn(
                f"{name} was captured before, and then not: it is emptied and read again with this file",
                remedy="Take it out again if that costs too much now.",
            )
        preparation.validate(selection.tables)
        self._good("the source is ready for them")

    def _collect(self, line: LogLine) -> None:
        if line.level in ("error", "fatal"):
            self._errors.append(line)
        elif line.level == "warning":
            self._warn(line.message, line.code, line.remedy)
        elif line.event_type == OPTIONAL_SQL:
            self._good(line.message)
            self._optional.append(OptionalPart(line.message, str(line.fields.get("sql", ""))))

    def _good(self, message: str) -> None:
        self._findings.append(Finding(True, message))

    def _bad(self, error: TidemarkError) -> None:
        self._findings.append(Finding(False, error.message, error.code, error.remedy, "failure", error.entry.policy))

    def _warn(self, message: str, code: str = "", remedy: str = "") -> None:
        self._findings.append(Finding(True, message, code, remedy, "warning"))


def discover(file: CaptureFileArgument, json: JsonOption = False) -> None:
    """List the tables that the connector finds, their keys and columns, and those that the capture file selects."""
    settings = read_capture_file(file)
    preparation = Preparation(settings, _to_stderr)
    spec, discovered = preparation.discover()
    mistake: TidemarkError | None = None
    chosen: set[str] = set()
    try:
        chosen = {table.name for table in preparation.select(spec, discovered).tables}
    except TidemarkError as error:
        mistake = error  # The list helps to fix it: print it first.
    rows: list[dict[str, Any]] = [
        {
            "table": ".".join(resource_path(spec, binding)),
            "captured": ".".join(resource_path(spec, binding)) in chosen,
            "key": binding.key,
            "fallback_key": binding.is_fallback_key,
            "disabled": binding.disable,
            "reason": preparation.reasons.get(binding.recommended_name, "") if binding.disable else "",
            "columns": [name for name in binding.document_schema.get("properties", {}) if name != "_meta"],
        }
        for binding in discovered
    ]
    if json:
        for row in rows:
            say_json(row)
    else:
        _print_tables(rows)
    if mistake is not None:
        raise mistake


def _print_tables(rows: list[dict[str, Any]]) -> None:
    if not rows:
        say("no tables\n")
        return
    print_table(["table", "captured", "key", "columns"], [], [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> list[str]:
    key = "none" if row["fallback_key"] else ", ".join(pointer.removeprefix("/") for pointer in row["key"])
    captured = "yes" if row["captured"] else "disabled" if row["disabled"] else "no"
    if row["reason"] and not row["captured"]:
        captured += f": {row['reason']}"
    return [row["table"], captured, key, ", ".join(row["columns"])]


def _to_stderr(line: LogLine) -> None:
    if line.level in ("warning", "error", "fatal"):
        say_aside(f"{line.level}: {line.message}\n")
