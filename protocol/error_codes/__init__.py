"""Every error code, with its retry policy and its remedy: one table, a module for each room.

A code is stable: it may be retired, never reused. ``docs/errors.md`` is generated from this table
(``python -m tests.house.protocol_documents``), and a test keeps the two, and the codes that the sources raise, in step.
"""

from __future__ import annotations

from tidemark.protocol.error_codes import captures, changelog, demo, mysql, postgres, protocol, runtime, spark
from tidemark.protocol.error_codes.model import ErrorCode, Policy

__all__ = ["CODES", "ErrorCode", "Policy"]


def _table(*rows: ErrorCode) -> dict[str, ErrorCode]:
    table = {row.code: row for row in rows}
    if len(table) != len(rows):
        raise ValueError("an error code is listed twice in the table")
    return table


CODES: dict[str, ErrorCode] = _table(
    *protocol.CODES,
    *captures.CODES,
    *postgres.CODES,
    *mysql.CODES,
    *changelog.CODES,
    *runtime.CODES,
    *spark.CODES,
    *demo.CODES,
)
