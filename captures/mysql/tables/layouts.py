"""The columns of a table at a position of the log, as the state keeps them: the catalog has only the present ones.

Without ``binlog_row_metadata = FULL`` the log does not describe columns. With it, the log still does not say which
columns have MariaDB's own types or hold JSON, and how many digits of a second MariaDB's old format has. It never says
how a statement that alters the table converts values: that takes the definitions before and after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields

import msgspec

from tidemark.captures.mysql.terms.columns import Column
from tidemark.protocol.errors import ProtocolError

_NOT_KEPT = frozenset(("salt", "on_bad_value", "description"))
"""Fields from the configuration, and those that only the schemas of documents have."""

_DEFAULTS = {each.name: each.default for each in fields(Column) if each.name not in _NOT_KEPT}


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table.

    Attributes:
        columns: All of them, in the order of the log's rows; or, of earlier versions, those of which the log says less
            than we know.
        complete: It is all of them.
        as_of: The catalog was read when the log ended here, and the log was not read to here; 0 when it was: the
            columns are those of the rows that come next.
        until: The same of where the log ended after that: the columns may be those after a statement between the two.
        past: Columns that the table had before, of which the log says less than we know.
        follows: The columns are those of the rows that come next, although the log was not read to ``as_of``.
    """

    columns: tuple[Column, ...]
    complete: bool
    as_of: int = 0
    until: int = 0
    past: tuple[Column, ...] = ()
    follows: bool = False


LayoutParts = tuple[tuple[Column, ...], dict[str, Column], int, int, bool]
"""What the text of a layout is made of: columns, those of before by name, ``as_of``, ``until`` and ``follows``."""


def layout(columns: Iterable[Column], past: Iterable[Column], *, as_of: int, until: int, follows: bool = False) -> str:
    """The text of a layout.

    Args:
        columns: Of the table.
        past: Those that it had before.
        as_of: As of ``Layout``.
        until: The same.
        follows: The same.
    """
    members: dict[str, object] = {"columns": list(map(_members, columns)), "complete": True}
    if gone := [_members(column) for column in past if column.log_says_less]:
        members["past"] = gone
    if as_of:
        members["as_of"] = as_of
    if until:
        members["until"] = until
    if follows:
        members["follows"] = True
    return msgspec.json.encode(members).decode()


def read_layout(text: str) -> Layout:
    """The inverse of ``layout``. Raises ProtocolError ``TM-PRO-003``."""
    try:
        found = msgspec.json.decode(text, type=dict[str, object])
        as_of = msgspec.convert(found.get("as_of", 0), int)
        return Layout(
            msgspec.convert(found["columns"], tuple[Column, ...]),
            found.get("complete") is True,
            as_of,
            msgspec.convert(found.get("until", as_of), int),  # Earlier versions had only the one.
            msgspec.convert(found.get("past", ()), tuple[Column, ...]),
            msgspec.convert(found.get("follows", False), bool),
        )
    except (msgspec.MsgspecError, KeyError):
        raise ProtocolError("TM-PRO-003", "open.state: a layout of a table that this connector did not write") from None


def _members(column: Column) -> dict[str, object]:
    """The fields that do not have their defaults."""
    found = {name: getattr(column, name) for name in _DEFAULTS}
    return {name: value for name, value in found.items() if _DEFAULTS[name] is MISSING or value != _DEFAULTS[name]}
