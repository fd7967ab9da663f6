"""Whether a capture needs somebody, for people and for monitors."""

from __future__ import annotations

from typing import Any

from tidemark.runtime.progress.liveness import Liveness

WELL, NEEDS_SOMEBODY, NOT_RUNNING = 0, 1, 3
"""Exit statuses of ``tidemark status``. 2 is wrong usage, as of every command."""


def needs(report: dict[str, Any], life: Liveness) -> list[str]:
    """Why somebody is needed, in words; empty if nobody is."""
    error, lacking = report["error"], []
    if report["file_error"] is not None:
        lacking.append("the capture file has a mistake")
    if life.state == "failed" and error is not None:
        lacking.append(f"the capture failed: {error['code']}")
    elif error is not None and error["passed"] is None:
        lacking.append(f"an error is not resolved: {error['code']}")
    if life.state in ("waiting for the source", "connector silent", "not answering"):
        lacking.append(life.state)
    lacking += [f"{name} is {figures['state'].replace('_', ' ')}" for name, figures in report["halted"].items()]
    lacking += [f"a command for {name} failed" for name in report["dropped"]]
    lacking += [f"the reread of {name} waits" for name, one in report["rereads"].items() if one["put_off"]]
    lacking += [f"{name} is set aside by materialize" for name in report["spark_set_aside"]]
    lacking += [f"the capture cannot resume: {failure['code']}" for failure in report["retained"]["failures"]]
    return lacking


def exit_status(life: Liveness, lacking: list[str], failures: list[dict[str, str]]) -> int:
    """The exit status of ``tidemark status``.

    Args:
        lacking: As ``needs`` gives it.
        failures: Why a capture that does not run could not resume.
    """
    ends = life.state in ("stopped", "killed", "unknown")
    if ends:
        return NEEDS_SOMEBODY if failures else NOT_RUNNING
    return NEEDS_SOMEBODY if lacking or life.state == "failed" else WELL
