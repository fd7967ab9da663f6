"""Codes of the capture engine, in any connector, and of the backfills that it runs."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
    ErrorCode(
        "TM-CAP-001",
        "The runtime closed the connector's output",
        Policy.RETRY,
        "Look at the runtime's own error. The next run goes on from the last commit.",
    ),
    ErrorCode(
        "TM-CAP-002",
        "The connector met a defect of its own",
        Policy.RETRY,
        "Run with LOG_LEVEL=debug for the full trace, and report it with the connector's version.",
    ),
    ErrorCode(
        "TM-BKF-001",
        "The stored state of a table's backfill is malformed",
        Policy.MANUAL,
        "Something other than this connector wrote the state. Restore it, or remove the named table's state to have "
        "the table read again.",
    ),
    ErrorCode(
        "TM-BKF-002",
        "A key holds a NUL character",
        Policy.MANUAL,
        "Choose other key columns for the table (key in its resource config), or set its scan to none.",
    ),
)
