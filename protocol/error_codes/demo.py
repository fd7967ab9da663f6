"""Codes of the demo."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
    ErrorCode(
        "TM-DEMO-001",
        "The demo's PostgreSQL cannot be started",
        Policy.MANUAL,
        "Install the extra with pip install 'tidemark[demo]', which includes a PostgreSQL. The message ends with the "
        "server's last output.",
    ),
    ErrorCode(
        "TM-DEMO-002",
        "The demo's directory holds something else",
        Policy.MANUAL,
        "Give an empty or new directory with --directory. The demo replaces only the results of an earlier demo.",
    ),
    ErrorCode(
        "TM-DEMO-003",
        "A step of the demo failed",
        Policy.MANUAL,
        "Read the last lines of the named log file in the demo's directory.",
    ),
)
