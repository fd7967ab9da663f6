"""What ``tidemark status`` says of a capture: as text, as JSON, and by its exit status."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.end_to_end.capture import Capture


@dataclass(frozen=True)
class Told:
    """What a program and a person are told.

    Attributes:
        report: The JSON; empty while there is no log.
        text: For people, its lines joined by blanks.
        exit_status: Of both, one after the other.
    """

    report: dict[str, Any]
    text: str
    exit_status: tuple[int, int]


def status(capture: Capture) -> Told:
    """Runs the command twice."""
    program, person = capture.run("status", "--json"), capture.run("status")
    report: dict[str, Any] = json.loads(program.said.splitlines()[0]) if program.said.startswith('{"capture"') else {}
    return Told(report, " ".join(person.said.split()), (program.status, person.status))


def report(capture: Capture) -> dict[str, Any]:
    """The JSON alone; empty while there is no log."""
    said = capture.run("status", "--json").said
    found: dict[str, Any] = json.loads(said.splitlines()[0]) if said.startswith('{"capture"') else {}
    return found


def is_caught_up(capture: Capture) -> bool:
    return bool(report(capture).get("caught_up"))
