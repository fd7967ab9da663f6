"""What a capture and the tables that Spark keeps say of themselves, and what of it waits for a person."""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from typing import Any

from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.diagnosis.findings import Findings
from tidemark.runtime.progress.liveness import Liveness
from tidemark.runtime.progress.quantities import duration, size

_CODE = re.compile(r"([A-Z]+(?:-[A-Z0-9]+)+): ")
"""What texts of status lines begin with. The code may be that of somebody else's connector."""

SOON_SECONDS = 24 * 3600.0
"""A source that drops the capture's position within this time is told."""

MOST_OF_LIMIT = 0.5
"""So is one that retains more than this part of its limit."""


def look_at_capture(report: dict[str, Any], life: Liveness, now: datetime, findings: Findings) -> None:
    """Finds what ``tidemark status`` says in its report that is not well."""
    file = shlex.quote(report["file"])
    words = life.in_words(now)
    if life.state in ("running", "caught up"):
        findings.good(f"the capture is {words}")
    else:
        findings.warn(f"the capture is {words}", "TM-RUN-024")
    _errors(report, findings)
    for name, one in report["halted"].items():
        code, message = _coded(one["error"] or one["state"])
        findings.fail(f"{name} is {one['state'].replace('_', ' ')}: {message}", code, one["remedy"] or "")
    for name, why in report["dropped"].items():
        code, message = _coded(why)
        remedy = (
            f"Correct the command and send it again; or forget it: tidemark resume {file} --table {shlex.quote(name)}"
        )
        findings.fail(f"the rows of {name} that a command asked for are not read: {message}", code, remedy)
    for number, why in report["refused"].items():
        findings.warn(f"command {number} was refused: {why}")
    for bad in report["bad_commands"]:
        findings.warn(bad["message"], bad["code"], bad["remedy"])
    for name, reread in report["rereads"].items():
        if reread["put_off"]:
            begin = f"tidemark resume {file} --table {shlex.quote(name)}"
            keep = f" If the rows are right as they are: {begin} --keep" if reread["may_be_dropped"] else ""
            findings.warn(f"the reread of {name} waits for you", remedy=f"To begin it: {begin}{keep}")
    _retained(report["retained"], findings)


def _errors(report: dict[str, Any], findings: Findings) -> None:
    error = report["error"]
    if error is None:
        return
    if error["passed"] is None:
        findings.fail(error["message"], error["code"], error["remedy"])
    else:
        findings.good(f"its last error, {error['code']}, has passed: {error['message']}")


def _retained(retained: dict[str, Any], findings: Findings) -> None:
    kept, limit, left = retained["bytes"], retained["limit"], retained["seconds_left"]
    if kept is None or retained["as_of"]:
        return  # Nothing is known of now.
    if limit is None:
        findings.good(f"the source retains {size(kept)} of its log for the capture, without a limit")
        return
    findings.good(f"the source retains {size(kept)} of its log for the capture, of at most {size(limit)}")
    if kept > MOST_OF_LIMIT * limit or (left is not None and left < SOON_SECONDS):
        when = "" if left is None else f", at this rate in {duration(left)}"
        findings.warn(f"the source drops the capture's position at {size(limit)}{when}", "TM-RUN-025")


def _coded(text: str) -> tuple[str, str]:
    """The code that a text begins with, if it does, and the rest."""
    found = _CODE.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


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
