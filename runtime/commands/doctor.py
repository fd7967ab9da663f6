"""``tidemark doctor``: everything of a capture, running or not, that does not fit."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from tidemark.protocol.capture_file import CaptureFile, MetricsEntry, read_capture_file
from tidemark.protocol.errors import SparkError, TidemarkError, UsageError
from tidemark.runtime.commands.check import ended, say_findings
from tidemark.runtime.commands.terminal.arguments import CaptureFileArgument, JsonOption
from tidemark.runtime.commands.terminal.printing import say, say_json
from tidemark.runtime.diagnosis.change_log import FoundLog, look_at_growth, look_at_log, look_at_readers
from tidemark.runtime.diagnosis.findings import Findings
from tidemark.runtime.diagnosis.running import look_at_capture, look_at_tables
from tidemark.runtime.diagnosis.source_look import SourceLook, look_at_drift
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.sessions.known_log import KnownLog
from tidemark.runtime.status.report import place_of, report_of

PARTS = {
    "machine": "machine",
    "file": "capture file",
    "log": "change log",
    "capture": "capture",
    "source": "source",
    "spark": "tables in Spark",
}
"""What is looked at, in order, with its heading."""


def doctor(file: CaptureFileArgument, json: JsonOption = False) -> None:
    """Look at everything of a capture, and name what does not fit, each with its code and what to do.

    The versions of what runs here, the capture file, the change log and its disk, the capture and what waits for a
    person, the source with all prerequisites, its clock and the columns of its tables, and the tables in Spark. The
    capture may run meanwhile. Changes nothing.

    Exit status: 0 nothing has to be done, 1 something is wrong, 3 when all problems may pass by themselves.
    """
    findings = Findings()
    _look(read_capture_file(file), file, findings)
    if json:
        say_json({"ok": not findings.failures, "findings": [asdict(one) for one in findings.all]})
    else:
        for part, found in groupby(findings.all, lambda finding: finding.part):
            say(f"{PARTS[part]}\n")
            say_findings(found, indent="  ")
        warnings = sum(finding.level == "warning" for finding in findings.all)
        say(f"{len(findings.failures)} failures, {warnings} warnings\n")
    ended(findings)


def _look(settings: CaptureFile, path: Path, findings: Findings) -> None:
    """One part that cannot be looked at does not keep from looking at the others."""
    findings.part = "machine"
    _look_at_machine(settings, findings)
    findings.part = "file"
    findings.good(f"the capture file is well-formed: capture {settings.capture}")
    if settings.metrics is not None and not liveness(read_status(StateFolder.of_file(path))).exists:
        _look_at_address(settings.metrics, findings)
    findings.part = "log"
    found: FoundLog | None = None
    try:
        found = look_at_log(settings, KnownLog(path), findings)
        if found is not None:
            look_at_growth(found.log, found.summary, findings)
            look_at_readers(found.log, found.summary, findings)
    except TidemarkError as error:
        findings.bad(error)
    report = None
    if found is not None:
        findings.part = "capture"
        now = datetime.now(UTC)
        try:
            report, life = report_of(place_of(path), now)
            look_at_capture(report, life, now, findings)
        except TidemarkError as error:
            findings.bad(error)
    findings.part = "source"
    selection = SourceLook(settings, found, findings).look()
    if selection is not None and found is not None:
        look_at_drift(selection, found, findings)
    if settings.spark is not None and report is not None:
        findings.part = "spark"
        look_at_tables(report, findings)


def _look_at_address(entry: MetricsEntry, findings: Findings) -> None:
    """Whether the capture, which does not run, could serve its metrics."""
    from tidemark.runtime.metrics.server import check_address

    try:
        check_address(entry)
        findings.good(f"no other process listens at {entry.listen}")
    except UsageError as error:
        findings.bad(error)


def _look_at_machine(file: CaptureFile, findings: Findings) -> None:
    """The versions of what runs here; of Java, PySpark and deltalake where the file has Spark keep tables."""
    python = ".".join(map(str, sys.version_info[:3]))
    findings.good(f"tidemark {version('tidemark')} with Python {python} on {platform.system()} {platform.machine()}")
    if file.spark is None:
        return
    from tidemark.spark_sink.spark.requirements import check_java, check_packages

    for what, check in (("PySpark and deltalake are", check_packages), ("Java is", check_java)):
        try:
            check()
            findings.good(f"{what} there, in a supported version")
        except SparkError as error:
            findings.bad(error)
