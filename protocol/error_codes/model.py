"""What a row of the table of error codes is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Policy(StrEnum):
    """What a supervisor does about an error. A connector's last log line has it by this name."""

    RETRY = "retry"
    """Start again with exponential backoff: the cause passes by itself."""

    MANUAL = "manual"
    """Stop with the error: a person must change something first."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the table.

    Attributes:
        code: ``TM-<room>-<number>``.
        title: What went wrong, as a heading.
        policy: Whether a supervisor tries again.
        remedy: What a person does about it, when the error itself does not say it more exactly.
        documentation: Where it is explained; empty if nowhere.
    """

    code: str
    title: str
    policy: Policy
    remedy: str
    documentation: str


def retry(code: str, title: str, remedy: str) -> ErrorCode:
    """An error whose cause passes by itself."""
    return ErrorCode(code, title, Policy.RETRY, remedy, _documentation(code))


def manual(code: str, title: str, remedy: str) -> ErrorCode:
    """An error that waits for a person."""
    return ErrorCode(code, title, Policy.MANUAL, remedy, _documentation(code))


def _documentation(code: str) -> str:
    return f"docs/errors.md#{code.lower()}"
