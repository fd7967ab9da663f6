"""What the rows of a table look like at a place of the log, as the state keeps it: the catalog says how they look now.

Without ``binlog_row_metadata = FULL`` the log does not say what its columns are, and with it not which of them are of
MariaDB's own types or hold JSON, nor how many digits of a second there are in MariaDB's old format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields

import msgspec

from captures.mysql.tables.columns import Column
from protocol.errors import ProtocolError

_NOT_KEPT = frozenset(("salt", "on_bad_value", "description"))
"""What the configuration says, and what only documents' schemas have."""

_DEFAULTS = {each.name: each.default for each in fields(Column) if each.name not in _NOT_KEPT}

_OWN = frozenset(("uuid", "inet4", "inet6", "vector"))
"""Types that MariaDB's log has as binary strings."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table.

    Attributes:
        columns: All of them, in the order of the log's rows; or those of which the log says less than we know.
        complete: It is all of them.
        as_of: The catalog was read when the log ended here, and the log was not read to here; 0 when it was: the
            columns are those of the rows that come next.
    """

    columns: tuple[Column, ...]
    complete: bool
    as_of: int = 0


def layout(columns: Iterable[Column], past: Mapping[str, Column], *, complete: bool, as_of: int) -> str:
    """The text of a layout.

    Args:
        columns: Of the table.
        past: Those that it had before, by name.
        complete: The log does not name its columns.
        as_of: As of ``Layout``.
    """
    kept = list(columns)
    if not complete:
        kept = [column for column in (*kept, *past.values()) if unsaid(column)]
    members: dict[str, object] = {"columns": [_members(column) for column in kept]}
    if complete:
        members["complete"] = True
    if as_of:
        members["as_of"] = as_of
    return msgspec.json.encode(members).decode()


def read_layout(text: str) -> Layout:
    """The inverse of ``layout``. Raises ProtocolError ``TM-PRO-003``."""
    try:
        found = msgspec.json.decode(text, type=dict[str, object])
        return Layout(
            msgspec.convert(found["columns"], tuple[Column, ...]),
            found.get("complete") is True,
            msgspec.convert(found.get("as_of", 0), int),
        )
    except (msgspec.MsgspecError, KeyError):
        raise ProtocolError("TM-PRO-003", "open.state: a layout of a table that this connector did not write") from None


def unsaid(column: Column) -> bool:
    """Whether the log, as it describes columns, may say less of this one."""
    return column.data_type in _OWN or column.fraction > 0 or (column.json and column.data_type != "json")


def _members(column: Column) -> dict[str, object]:
    """What is not as it is by default."""
    found = {name: getattr(column, name) for name in _DEFAULTS}
    return {name: value for name, value in found.items() if _DEFAULTS[name] is MISSING or value != _DEFAULTS[name]}
