"""``tidemark check`` and ``tidemark discover``: checks before anything is captured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tidemark.protocol.capture_file import read_capture_file
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.log_lines import LogLine
from tidemark.runtime.commands.terminal.arguments import CaptureFileArgument, JsonOption
from tidemark.runtime.commands.terminal.printing import print_table, say, say_aside, say_json
from tidemark.runtime.diagnosis.change_log import FoundLog, look_at_log
from tidemark.runtime.diagnosis.findings import Finding, Findings
from tidemark.runtime.diagnosis.fix_sql import Fix, OptionalPart, script
from tidemark.runtime.diagnosis.source_look import SourceLook
from tidemark.runtime.preparation.prepared_capture import Preparation
from tidemark.runtime.preparation.selection import resource_path
from tidemark.runtime.progress.failures import FAILED_FOR_NOW
from tidemark.runtime.sessions.known_log import KnownLog

MARKS = {"ok": "ok  ", "warning": "warn", "failure": "FAIL"}

FixSqlOption = Annotated[
    bool,
    typer.Option("--fix-sql", help="Print the statements that fix what is missing, and optional ones, as a script."),
]


def check(file: CaptureFileArgument, json: JsonOption = False, fix_sql: FixSqlOption = False) -> None:
    """Check everything that a capture needs, and print all problems at once.

    Checks the capture file, its secrets, the connector, the tables, the source's prerequisites and the change log.
    Changes nothing. Exit status: 1 when something is wrong, 3 when all problems may pass by themselves.
    """
    settings = read_capture_file(file)
    findings = Findings()
    findings.good(f"the capture file is well-formed: capture {settings.capture}")
    findings.part = "log"
    found: FoundLog | None = None
    try:
        found = look_at_log(settings, KnownLog(file), findings)
    except TidemarkError as error:
        findings.bad(error)
    findings.part = "source"
    source = SourceLook(settings, found, findings)
    source.look()
    if fix_sql:
        remedies = [Fix(f"{one.code}: {one.message}", one.remedy) for one in findings.all if one.remedy]
        statements = script(remedies, [OptionalPart(*part) for part in source.optional])
    if json:
        report = {"ok": not findings.failures, "findings": [asdict(one) for one in findings.all]}
        say_json({**report, "sql": statements} if fix_sql else report)
    elif fix_sql:
        say(statements)
    else:
        say_findings(findings.all)
    ended(findings)


def say_findings(findings: Iterable[Finding], indent: str = "") -> None:
    """Prints them, each with what to do."""
    for finding in findings:
        code = f"{finding.code}: " if finding.code else ""
        say(f"{indent}{MARKS[finding.level]}  {code}{finding.message}\n")
        if finding.remedy:
            say(f"{indent}      what to do: {finding.remedy}\n")


def ended(findings: Findings) -> None:
    """Ends a command with the exit status of what was found: 1 for a failure, 3 if all of them may pass."""
    if failures := findings.failures:
        passes = all(one.policy is Policy.RETRY for one in failures)
        raise typer.Exit(FAILED_FOR_NOW if passes else 1)


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
