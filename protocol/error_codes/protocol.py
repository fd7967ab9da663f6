"""Codes of the capture protocol: messages on stdin and stdout; and those that several rooms raise."""

from __future__ import annotations

from tidemark.protocol.error_codes.model import manual, retry

CODES = (
    manual(
        "TM-PRO-001",
        "A line is not JSON",
        "Send one JSON object per line, in UTF-8, ended by a newline.",
    ),
    manual(
        "TM-PRO-002",
        "A message has an unknown kind",
        "A request is an object with exactly one of the keys spec, discover, validate, apply, open, acknowledge; "
        "a response with exactly one of spec, discovered, validated, applied, opened, captured, sourcedSchema, "
        "checkpoint, backfillBegin, backfillComplete.",
    ),
    manual(
        "TM-PRO-003",
        "A message has a missing or wrong field",
        "Compare the message with its JSON Schema in docs/protocol/.",
    ),
    manual(
        "TM-PRO-004",
        "A message is out of order",
        "Send one of spec, discover, validate, apply as the only request, or open followed by acknowledge requests.",
    ),
    manual(
        "TM-PRO-005",
        "A line is longer than the limit",
        "Keep each message under 64 MiB. Exclude the column that holds such values.",
    ),
    retry(
        "TM-PRO-006",
        "The stream ended in the middle of a line",
        "The other side stopped while it was writing. Look at its own error. Nothing that was acknowledged is lost.",
    ),
    manual(
        "TM-PRO-007",
        "An acknowledgement counts more checkpoints than were sent",
        "Acknowledge each checkpoint once, in order, in the session that sent it.",
    ),
    manual(
        "TM-PRO-008",
        "A batch of columns cannot be read",
        "The connector must be fixed: compare what it sends with Batches of columns in docs/protocol.md. Until then, "
        'set TIDEMARK_BATCHES: "" in the capture file under connector.environment: then it sends JSON lines.',
    ),
    manual(
        "TM-CAP-004",
        "A command to a running capture is wrong",
        "Nothing was changed. Look at the states of the tables in the capture's status, and send a corrected command.",
    ),
    manual(
        "TM-CAP-009",
        "A reread cannot be dropped",
        "Have the table read: tidemark resume FILE --table TABLE. Its key has changed, or rows of it may be gone, so "
        "rows that no longer exist would stay downstream for good.",
    ),
    manual(
        "TM-RUN-012",
        "A part of tidemark is not installed",
        "Install the extra that the message names.",
    ),
    manual(
        "TM-CFG-003",
        "A secret of the capture file cannot be read",
        "Set the named environment variable, or make the named file readable, for the process that runs tidemark.",
        secret=True,
    ),
)
