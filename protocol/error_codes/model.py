"""What a row of the table of error codes is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Policy(StrEnum):
    """What a supervisor does about an error."""

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
    """

    code: str
    title: str
    policy: Policy
    remedy: str


_ROW = re.compile(r"(TM-[A-Z]+-\d{3}) (retry|manual): (.+)\n((?: {4}.+\n)+)\n?")


def listed(text: str) -> tuple[ErrorCode, ...]:
    """The rows of a list.

    Args:
        text: For each row, a line with its code, policy and title, then its remedy in indented lines, then a blank
            line.

    Raises:
        ValueError: A part of the text is no row.
    """
    if strange := _ROW.sub("", text).strip():
        raise ValueError(f"no row of error codes: {strange[:80]}")
    rows = _ROW.findall(text)
    return tuple(
        ErrorCode(code, title, Policy(policy), " ".join(remedy.split())) for code, policy, title, remedy in rows
    )
