"""Codes of the demo."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual

CODES = (
    manual(
        "TM-DEMO-002",
        "The demo's directory holds something else",
        "Give an empty or new directory with --directory. The demo replaces only the results of an earlier demo.",
    ),
    manual(
        "TM-DEMO-003",
        "A step of the demo failed",
        "Read the last lines of the named log file in the demo's directory.",
    ),
)
