"""Queries whose texts come as the database stores them, also texts that the server cannot convert.

Names, labels and comments may have bytes that stand for no character, as values may: see
``tidemark.captures.postgres.catalog.encodings``. The server's own conversion ends a whole statement at the first of
them. COPY sends texts as they are stored, and takes its statement in UTF-8 all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg

from tidemark.captures.postgres.catalog.encodings import (
    NoCharacter,
    encoding_of,
    is_transcoded,
    readable,
    stored,
    transcoder,
)

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
"""By the letter after a backslash; any other character stands for itself (PostgreSQL docs, COPY, "Text Format")."""

_SURROGATE = re.compile("[\udc80-\udcff]")

Parameters = Sequence[object] | Mapping[str, object]


def stored_rows(
    session: psycopg.Connection, query: str, parameters: Parameters | None = None, *, foreign: bool = False
) -> list[Sequence[Any]]:
    """The rows of a query whose columns are numbers, booleans, texts, and arrays or JSON of these.

    A text with bytes that stand for no character is an ``Unsayable``.

    Args:
        query: A constant, with the placeholders of psycopg. It must cast oids to bigint.
        foreign: Texts may be in the encoding of another database, such as statements and names of roles.

    Raises:
        psycopg.Error: The server refuses; a ``NoCharacter`` where the database's encoding does not have a parameter.
    """
    if not foreign and not is_transcoded(session):
        return list(session.execute(query, parameters).fetchall())
    texts = transcoder(lambda: session)
    statement = b"COPY (SELECT row_to_json(found) FROM (%b\n) AS found) TO STDOUT (ENCODING '%b')" % (
        psycopg.ClientCursor(session).mogrify(query, parameters).encode(),
        encoding_of(session).encode(),
    )
    with session.cursor() as cursor, cursor.copy(statement) as copy:
        lines = [bytes(line) for line in copy]
    return [_row(line if texts is None else texts.utf8(line)) for line in lines]


def rows_of_tables(
    session: psycopg.Connection, query: str, names: Iterable[tuple[str, str]] | None, **parameters: object
) -> list[Sequence[Any]]:
    """As ``stored_rows``, of a query with the placeholders ``schemas`` and ``names``: two arrays, or NULL for None.

    Names that the database's encoding does not have are left out: no table has one. Raises psycopg.Error.
    """
    known = None if names is None else [name for name in names if is_sayable(session, "".join(name))]
    return stored_rows(session, query, {**parameters, **_arrays(known)})


def _arrays(names: Sequence[tuple[str, str]] | None) -> dict[str, list[str] | None]:
    if names is None:
        return {"schemas": None, "names": None}
    return {"schemas": [schema for schema, _ in names], "names": [name for _, name in names]}


def is_sayable(session: psycopg.Connection, text: str) -> bool:
    """Whether the database's encoding has all characters of a text. Raises psycopg.Error."""
    if text.isascii() or not is_transcoded(session):
        return True
    try:
        with session.transaction():  # Where there is one already, it survives the failure.
            stored(session, text)
    except NoCharacter:
        return False
    return True


def _row(line: bytes) -> list[Any]:
    unescaped = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), line.removesuffix(b"\n"))
    text = unescaped.decode("utf-8", "surrogateescape")
    row: list[Any] = json.loads(text, object_pairs_hook=_values)
    return _readable(row) if _SURROGATE.search(text) else row


def _values(members: list[tuple[str, Any]]) -> list[Any]:
    return [value for _, value in members]


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    return [_readable(part) for part in value] if isinstance(value, list) else value
