"""Codes of the demo."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
    ErrorCode(
        "TM-DEMO-001",
        "The demo's PostgreSQL cannot be started",
        Policy.MANUAL,
        "Install the extra with pip install 'tidemark[demo]', which brings a PostgreSQL along; the message holds the "
        "server's own last words.",
    ),
    ErrorCode(
        "TM-DEMO-002",
        "The demo's directory holds something else",
        Policy.MANUAL,
        "Give an empty or new directory with --directory; the demo replaces only what an earlier demo left.",
    ),
    ErrorCode(
        "TM-DEMO-003",
        "A step of the demo failed",
        Policy.MANUAL,
        "Read the named log file in the demo's directory: its last lines say what happened.",
    ),
)
