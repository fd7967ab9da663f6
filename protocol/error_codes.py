"""Every error code, with its retry policy and its remedy.

A code is stable: it may be retired, never reused. ``docs/errors.md`` is generated from this table
(``python -m protocol.generate``), and a test keeps the two, and the codes that the sources raise, in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Policy(StrEnum):
    """What a supervisor does about an error."""

    RETRY = "retry"
    """Start again with exponential backoff: the cause passes by itself."""

    MANUAL = "manual"
    """Stop and say so: a person must change something first."""


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


def _table(*rows: ErrorCode) -> dict[str, ErrorCode]:
    table = {row.code: row for row in rows}
    if len(table) != len(rows):
        raise ValueError("an error code stands twice in the table")
    return table


CODES: dict[str, ErrorCode] = _table(
    # Capture protocol: messages on stdin and stdout.
    ErrorCode(
        "TM-PRO-001",
        "A line is not JSON",
        Policy.MANUAL,
        "Send one JSON object per line, UTF-8, ended by a newline.",
    ),
    ErrorCode(
        "TM-PRO-002",
        "A message has no known kind",
        Policy.MANUAL,
        "A request is an object with exactly one of the keys spec, discover, validate, apply, open, acknowledge; "
        "a response with exactly one of spec, discovered, validated, applied, opened, captured, sourcedSchema, "
        "checkpoint.",
    ),
    ErrorCode(
        "TM-PRO-003",
        "A message has a missing or wrong field",
        Policy.MANUAL,
        "Compare the message with its JSON Schema in docs/protocol/.",
    ),
    ErrorCode(
        "TM-PRO-004",
        "A message is out of order",
        Policy.MANUAL,
        "Send one of spec, discover, validate, apply as the only request, or open followed by acknowledge requests.",
    ),
    ErrorCode(
        "TM-PRO-005",
        "A line is longer than the limit",
        Policy.MANUAL,
        "Keep each message under 64 MiB; exclude the column that holds such values.",
    ),
    ErrorCode(
        "TM-PRO-006",
        "The stream ended in the middle of a line",
        Policy.RETRY,
        "The other side stopped while it wrote. Look at its own error; nothing that was acknowledged is lost.",
    ),
    ErrorCode(
        "TM-PRO-007",
        "An acknowledgement counts more checkpoints than were sent",
        Policy.MANUAL,
        "Acknowledge each checkpoint once, in order, in the session that sent it.",
    ),
    # The change log on disk.
    ErrorCode(
        "TM-LOG-001",
        "There is no change log at this path",
        Policy.MANUAL,
        "Give the directory that holds tidemark.json: the capture file's log entry.",
    ),
    ErrorCode(
        "TM-LOG-002",
        "A file of the change log is damaged",
        Policy.MANUAL,
        "Restore the named file from a copy of the log. Nothing was skipped and nothing was changed.",
    ),
    ErrorCode(
        "TM-LOG-003",
        "The change log has a newer format",
        Policy.MANUAL,
        "Upgrade tidemark to the version that wrote the log, or a later one.",
    ),
    ErrorCode(
        "TM-LOG-004",
        "A file of the change log is missing",
        Policy.MANUAL,
        "Restore the named file from a copy of the log. Commits and segments are never deleted by hand.",
    ),
)
