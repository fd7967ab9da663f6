"""Whether a capture needs somebody, for people and for monitors."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from tidemark.protocol.log_lines import RereadCause
from tidemark.runtime.progress.liveness import Liveness
from tidemark.runtime.status.words import unverified

WELL, NEEDS_SOMEBODY, NOT_RUNNING = 0, 1, 3
"""Exit statuses of ``tidemark status``. 2 is wrong usage, as of every command."""


HINDERED = ("waiting for the source", "waiting for the log", "connector failed", "connector silent", "not answering")
"""States in which nothing is captured though the capture has a process."""


@dataclass(frozen=True, slots=True)
class Need:
    """A reason why somebody is needed.

    Attributes:
        text: The reason, in a few words.
        why: What happened, with the error's code; empty where ``text`` says all.
        remedy: What to do; empty where that is not known.
    """

    text: str
    why: str = ""
    remedy: str = ""


def needs(report: dict[str, Any], life: Liveness) -> list[Need]:
    """Why somebody is needed; empty if nobody is."""
    error, lacking = report["error"], []
    if (mistake := report["file_error"]) is not None:
        lacking.append(_of_error("the capture file as it is cannot be used", mistake))
    if life.state == "failed" and error is not None:
        lacking.append(_of_error(f"the capture failed: {error['code']}", error))
    elif error is not None and error["passed"] is None:
        lacking.append(_of_error(f"an error is not resolved: {error['code']}", error))
    if (full := report["folder_error"]) is not None:
        lacking.append(_of_error("the state folder cannot be written", full))
    if life.state in HINDERED:
        lacking.append(Need(life.state))
    for name, one in report["halted"].items():
        text = f"{name} is {one['state'].replace('_', ' ')}"
        lacking.append(Need(text, one["error"] or "", one["remedy"] or ""))
    file = shlex.quote(report["file"] or "FILE")
    for name, why in report["dropped"].items():
        resume = f"tidemark resume {file} --table {shlex.quote(name)}"
        remedy = f"Correct the command and send it again; or forget it: {resume}"
        lacking.append(Need(f"a command for {name} failed", why, remedy))
    for name, one in report["rereads"].items():
        if one["put_off"]:
            resume = f"tidemark resume {file} --table {shlex.quote(name)}"
            keep = f"; if the rows are right as they are: {resume} --keep" if one["may_be_dropped"] else ""
            why = "; ".join(RereadCause.model_validate(cause).text for cause in one["causes"])
            lacking.append(Need(f"the reread of {name} waits", why, f"To begin it: {resume}{keep}"))
    for name, one in report["spark"].items():
        if one["set_aside"]:
            lacking.append(Need(f"{name} is set aside by materialize", one["set_aside"], one["remedy"]))
    for name, one in report["verified"].items():
        if (one["different"] or one["different_in_spark"]) and not one["repaired"]:
            found = f"found by tidemark verify at {one['time']}"
            remedy = f"See which: tidemark verify {file} --table {shlex.quote(name)}. With --repair they are read again"
            lacking.append(Need(f"rows of {name} differ from the source", found, remedy))
    if (verification := report["verification"]) is not None and verification["late"]:
        lacking += [Need(f"{what} is not verified", why, remedy) for what, why, remedy in unverified(verification)]
    for failure in report["retained"]["failures"]:
        lacking.append(_of_error(f"the capture cannot resume: {failure['code']}", failure))
    return lacking


def _of_error(text: str, error: dict[str, Any]) -> Need:
    return Need(text, f"{error['code']}: {error['message']}", error["remedy"])


def exit_status(life: Liveness, lacking: list[str], failures: list[dict[str, str]]) -> int:
    """The exit status of ``tidemark status``.

    Args:
        lacking: The reasons that ``needs`` gives.
        failures: Why a capture that does not run could not resume.
    """
    ends = life.state in ("stopped", "killed", "unknown")
    if ends:
        return NEEDS_SOMEBODY if failures else NOT_RUNNING
    return NEEDS_SOMEBODY if lacking or life.state == "failed" else WELL
