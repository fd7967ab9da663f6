"""Codes of the capture file."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual

CODES = (
    manual(
        "TM-CFG-001",
        "The capture file cannot be read",
        "Give the path of a YAML file; 'tidemark init' writes one to start from.",
    ),
    manual(
        "TM-CFG-002",
        "The capture file has a mistake",
        "Fix the named lines. 'tidemark init' writes a file that shows every entry.",
    ),
    manual(
        "TM-CFG-004",
        "A table of the capture file cannot be captured",
        "Compare the entry with the output of 'tidemark discover FILE'. Names are case-sensitive; a dot joins schema "
        "and table.",
    ),
)
