"""What log the source retains for a capture. A capture that does not run cannot say: then the source is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.environment import RETAINED
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.log_lines import LogLine, Progress
from tidemark.protocol.logs import STATUS
from tidemark.protocol.messages import JsonObject
from tidemark.runtime.preparation.prepared_capture import Preparation
from tidemark.runtime.progress.liveness import Liveness, time_of

ANSWER_SECONDS = 15.0
"""How long the source may take to answer."""


@dataclass(slots=True)
class Retained:
    """The log that the source retains.

    Attributes:
        bytes: None where that is unknown.
        limit: Of how many the source drops the capture's position; None without a limit.
        seconds_left: Until the limit at the present rate; None if there is no forecast.
        by: Where or for what, in words; empty where that is unknown.
        unknown: Why the source cannot be asked, with the error's code; empty if it can.
        as_of: When all this was so, in ISO form; None if it is so now. What is retained now is unknown then.
        failures: Why the capture could not resume: code, message and remedy of each reason.
    """

    bytes: int | None = None
    limit: int | None = None
    seconds_left: float | None = None
    by: str = ""
    unknown: str = ""
    as_of: str | None = None
    failures: list[dict[str, str]] = field(default_factory=list)


def retained_now(said: JsonObject, life: Liveness) -> Retained:
    """What a running capture has said of it."""
    progress = _progress(said.get("last_known") or said)
    if progress is None or not life.running:
        return Retained()
    now = life.state == "running"
    return Retained(
        progress.retained_bytes,
        progress.retained_limit,
        progress.retained_seconds_left if now else None,
        progress.retained_by or "",
        as_of=None if now else said.get("source_time"),
    )


def ask_source(file: CaptureFile, log: ChangeLog, said: JsonObject, life: Liveness, now: datetime) -> Retained:
    """What the source says of it, for a capture that does not run, or does not answer.

    The rate is that since the capture said it last.

    Args:
        said: The capture's last status.
    """
    lines: list[LogLine] = []
    state = log.summary().state
    if not state:
        return Retained()  # Nothing was captured: the source retains nothing.
    entry = file.connector.model_copy(update={"answer": min(file.connector.answer, ANSWER_SECONDS)})
    try:
        Preparation(
            file.model_copy(update={"connector": entry}),
            lines.append,
            variables={RETAINED: "running" if life.exists else "1", "LOG_LEVEL": "info"},
            log_id=log.header.log_id,
            state=state,
        ).validate([])
    except TidemarkError as error:
        return Retained(unknown=str(error))
    found = Retained()
    for line in lines:
        if line.event_type == STATUS and (progress := _progress(line.fields)) is not None:
            found.bytes, found.limit, found.by = (
                progress.retained_bytes,
                progress.retained_limit,
                progress.retained_by or "",
            )
        elif line.level == "error" and line.code:
            found.failures.append({"code": line.code, "message": line.message, "remedy": line.remedy})
    found.seconds_left = _seconds_left(found, said, now)
    return found


def _seconds_left(found: Retained, said: JsonObject, now: datetime) -> float | None:
    before, then = said.get("retained_bytes"), time_of(said.get("time"))
    if found.bytes is None or found.limit is None or not isinstance(before, int) or then is None:
        return None
    grown, seconds = found.bytes - before, (now - then).total_seconds()
    if grown <= 0 or seconds <= 0:
        return None
    return round(max(0, found.limit - found.bytes) * seconds / grown, 1)


def _progress(fields: dict[str, Any]) -> Progress | None:
    try:
        return Progress.model_validate(fields)
    except ValidationError:
        return None  # Another connector's figures.
