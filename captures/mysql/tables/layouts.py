"""The columns of a table at a position of the log, as the state keeps them: the catalog has only the present ones.

Without ``binlog_row_metadata = FULL`` the log does not describe columns. With it, the log still does not say which
columns have MariaDB's own types or hold JSON, and how many digits of a second MariaDB's old format has. It never says
how a statement that alters the table converts values: that takes the definitions before and after it.
"""

from __future__ import annotations

from dataclasses import MISSING, fields

import msgspec

from tidemark.captures.mysql.terms.columns import Column
from tidemark.protocol.errors import ProtocolError

_NOT_KEPT = frozenset(("salt", "on_bad_value", "description"))
"""Fields from the configuration, and those that only the schemas of documents have."""

_DEFAULTS = {each.name: each.default for each in fields(Column) if each.name not in _NOT_KEPT}


class Layout(msgspec.Struct, frozen=True):
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
    complete: bool = False
    as_of: int = 0
    until: int = 0
    past: tuple[Column, ...] = ()
    follows: bool = False

    def text(self) -> str:
        """For the state. Members but ``columns`` are left out that are empty."""
        members = msgspec.structs.asdict(self) | {name: [*map(_members, getattr(self, name))] for name in _OF_COLUMNS}
        return msgspec.json.encode({name: each for name, each in members.items() if each or name == "columns"}).decode()


_OF_COLUMNS = ("columns", "past")


def read_layout(text: str) -> Layout:
    """The inverse of ``Layout.text``. Raises ProtocolError ``TM-PRO-003``."""
    try:
        found = msgspec.json.decode(text, type=Layout)
    except msgspec.MsgspecError:
        raise ProtocolError("TM-PRO-003", "open.state: a layout of a table that this connector did not write") from None
    # Earlier versions had only the one position.
    return found if found.until else msgspec.structs.replace(found, until=found.as_of)


def _members(column: Column) -> dict[str, object]:
    """The fields that do not have their defaults."""
    found = {name: getattr(column, name) for name in _DEFAULTS}
    return {name: value for name, value in found.items() if _DEFAULTS[name] is MISSING or value != _DEFAULTS[name]}
