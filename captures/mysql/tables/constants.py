"""The constants that columns give to all rows that are there when they are added, as documents have them.

The server itself converts a default to the column's type: ``DEFAULT(c)`` is read as a row's value is, by the decoder of
chunks. The default of a column that is NOT NULL and has none depends on the type alone.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Final, NoReturn

import pymysql
from pymysql.constants import ER

from tidemark.captures.mysql.rows.chunk_decoder import compile_chunk_decoder, selected
from tidemark.captures.mysql.server.session import Session, error_of
from tidemark.captures.mysql.server.wire import stream
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.types import TEMPORAL, Form, form
from tidemark.captures.tables.bad_values import BadCounts, BadValues, Repairs
from tidemark.protocol.codec import split_captured
from tidemark.protocol.messages import Json

_DEFAULTS = """
    SELECT t.table_schema, t.table_name, t.column_name, t.column_default, t.extra
    FROM information_schema.columns t WHERE t.table_schema = %s AND t.table_name = %s
"""

_MADE_FOR_EACH_ROW = ("AUTO_INCREMENT", "GENERATED")
"""In ``extra``. MySQL says DEFAULT_GENERATED of an expression."""

_LITERAL = re.compile(r"""-?\d+(\.\d+)?([eE][-+]?\d+)?|b'[01]*'|'([^'\\]|''|\\.)*'""", re.DOTALL)
"""How MariaDB prints a default that is no expression."""

_ALTERED_MEANWHILE: Final = (
    ER.NO_SUCH_TABLE,
    ER.BAD_FIELD_ERROR,
    ER.TABLE_DEF_CHANGED,
    ER.NO_DEFAULT_FOR_FIELD,
)


def constants(session: Session, table: BoundTable, names: Collection[str]) -> dict[str, Json]:
    """Those of the columns with these names whose constant is known for sure and has its place in documents.

    It is the constant of this moment: a statement that the log has not shown yet may have changed the default. Raises
    pymysql.Error.
    """
    columns = [column for column in table.captured if column.name in names and not column.generated]
    if not columns:
        return {}
    defaults = {
        name: (default, str(extra).upper())
        for schema, of, name, default, extra in session.rows(_DEFAULTS, *table.table.path)
        if (schema, of) == table.table.path
    }
    found = {}
    for column in columns:
        default, extra = defaults.get(column.name, (None, _MADE_FOR_EACH_ROW[0]))
        if column.salt or any(word in extra for word in _MADE_FOR_EACH_ROW):
            continue
        with suppress(_Unknown):
            found[column.name] = _read(session, table, column, default)
    return found


class _Unknown(Exception):
    """A constant is not known for sure."""


def _read(session: Session, table: BoundTable, column: Column, default: str | None) -> Json:
    """The constant of a column. Raises _Unknown."""
    of = form(column, tinyint1_as_bool=table.tinyint1_as_bool)
    if of in (Form.GEOMETRY, Form.VECTOR):
        raise _Unknown
    if default is None:
        query = f"SELECT {_implicit(column, of)}"
    elif _is_literal(session, of, default):
        (value,) = selected([column], (), of="DEFAULT({})")
        query = f"SELECT {value} FROM {table.table.in_sql} LIMIT 1"
    else:
        raise _Unknown
    bad: BadCounts = Counter()
    decode = compile_chunk_decoder(
        [column], (), tinyint1_as_bool=table.tinyint1_as_bool, repairs=Repairs(table.name, bad)
    )
    rows = _row(session, query)
    try:
        ((tail,), _) = decode(rows, 0)
    except BadValues:
        raise _Unknown from None
    captured = split_captured(table.chunk_head("").line + tail)
    if bad or captured is None:
        raise _Unknown
    # Numbers within JSON may have more digits than are kept here.
    exactly = _refused if of is Form.JSON else None
    return json.loads(captured[1], parse_float=exactly, parse_int=exactly)[column.name]


def _refused(_: str) -> NoReturn:
    raise _Unknown


def _row(session: Session, query: str) -> list[bytes]:
    """The first row of a query. Raises _Unknown where there is none, or the table was altered meanwhile."""
    try:
        rows = [row for block in stream(session.connection, query) for row in block]
    except pymysql.Error as error:
        if error_of(error)[0] not in _ALTERED_MEANWHILE:
            raise
        rows = []
    if not rows:
        raise _Unknown
    return rows


def _is_literal(session: Session, of: Form | None, default: str) -> bool:
    if session.mariadb:
        return _LITERAL.fullmatch(default) is not None
    return of not in TEMPORAL or default[:1].isdigit()


def _implicit(column: Column, of: Form | None) -> str:
    """SQL of the value of rows where a column is NOT NULL and has no default. Raises _Unknown."""
    if column.nullable:
        raise _Unknown
    match of:
        case Form.INTEGER | Form.BOOLEAN | Form.FLOAT | Form.DOUBLE:
            return "0"
        case Form.DECIMAL:
            return f"CAST(0 AS DECIMAL({column.precision}, {column.scale or 0}))"
        case Form.TIME:
            return f"CAST('00:00:00' AS TIME({column.fraction}))"
        case Form.BINARY:
            return f"REPEAT('\\0', {column.length})" if column.data_type == "binary" else "''"
        case Form.STRING if column.data_type == "enum" and not column.may_hide(column.labels[0]):
            return f"CONVERT(0x{column.labels[0].encode().hex()} USING utf8mb4)"
        case Form.STRING if column.data_type != "enum" and column.charset is not None:
            return "''"
        case _:
            raise _Unknown
