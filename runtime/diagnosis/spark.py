"""The tables that Spark keeps of a log: whether they are set aside, of another log, or far behind."""

from __future__ import annotations

from typing import Any

from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.diagnosis.findings import Findings
from tidemark.runtime.progress.quantities import duration

BEHIND_SECONDS = 3600.0
"""A table that lacks events which are older than this is told."""


def look_at_tables(report: dict[str, Any], findings: Findings) -> None:
    """The tables that Spark keeps, as the last run of ``tidemark materialize`` has noted them."""
    tables: dict[str, dict[str, Any]] = report["spark"]
    if not tables:
        findings.good("Spark keeps no table of this log yet")
    for name, one in tables.items():
        if one["set_aside"]:
            code, _, message = one["set_aside"].partition(": ")
            findings.fail(f"{name} is set aside by materialize: {message}", code, one["remedy"] or "")
        elif one["complete_to"] > report["events"]:
            more = f"up to offset {one['complete_to']:,}, and the log ends at {report['events']:,}"
            findings.bad(ChangeLogError("TM-RUN-027", f"{name} has events {more}"))
        elif one["behind_seconds"] > BEHIND_SECONDS:
            findings.warn(f"{name} is {duration(one['behind_seconds'])} behind the log", "TM-RUN-026")
        else:
            findings.good(f"{name} is {duration(one['behind_seconds'])} behind the log")
