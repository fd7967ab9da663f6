"""Statements of the log that begin and end transactions. The server writes them in a few forms."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from tidemark.captures.mysql.terms.transaction_ids import xa_id


class Control(Enum):
    """The effect of such a statement."""

    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    SAVEPOINT = auto()
    ROLLBACK_TO = auto()
    XA_START = auto()
    XA_END = auto()
    XA_COMMIT = auto()
    XA_ROLLBACK = auto()


class ControlStatement(NamedTuple):
    """``xid`` as ``xa_id`` writes it; empty where the statement has none."""

    control: Control
    xid: str = ""


_BEGIN = ControlStatement(Control.BEGIN)
_COMMIT = ControlStatement(Control.COMMIT)

_FORMS = re.compile(
    rb"\s*(?:(?P<begin>BEGIN|START\s+TRANSACTION)\b(?!\s*NOT)"
    rb"|(?P<commit>COMMIT)\b"
    rb"|(?P<rollback_to>ROLLBACK\s+(?:WORK\s+)?TO)\b"
    rb"|(?P<rollback>ROLLBACK)\b"
    rb"|(?P<savepoint>(?:RELEASE\s+)?SAVEPOINT)\b"
    rb"|XA\s+(?P<xa>START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s+(?P<xid>.*))",
    re.IGNORECASE | re.DOTALL,
)
_XID = re.compile(rb"X'([0-9a-f]*)'\s*,\s*X'([0-9a-f]*)'\s*,\s*(-?\d+)", re.IGNORECASE)
_XA = {
    b"START": Control.XA_START,
    b"BEGIN": Control.XA_START,
    b"END": Control.XA_END,
    b"PREPARE": Control.XA_END,
    b"COMMIT": Control.XA_COMMIT,
    b"ROLLBACK": Control.XA_ROLLBACK,
}


def control(statement: bytes) -> ControlStatement | None:
    """The effect of a statement on transactions; None if it has none."""
    if statement == b"BEGIN":
        return _BEGIN
    if statement == b"COMMIT":
        return _COMMIT
    match = _FORMS.match(statement)
    if match is None:
        return None
    if match["xa"] is not None:
        xid = _XID.match(match["xid"])
        parts = (bytes.fromhex(xid[1].decode()), bytes.fromhex(xid[2].decode()), int(xid[3])) if xid else None
        return ControlStatement(_XA[match["xa"].upper()], xa_id(*parts) if parts else "")
    return ControlStatement(Control[(match.lastgroup or "").upper()])
