"""Texts of a database whose encoding is not UTF-8, as UTF-8.

Such encodings have bytes that stand for no character (0x81 in WIN1252), and the server stores them. The server's own
conversion ends the whole statement at the first such byte, and a stream of the log for good. So the server sends the
log, the rows of chunks and names as it stores them. They are converted here, character by character, with the server's
result for each. Bytes without a character become a mark. A mark is no UTF-8, so it makes a value a bad value.

Names, labels and comments are read by COPY, which sends texts as they are stored, and takes its statement in UTF-8 all
the same.

Every encoding of a database contains ASCII, and its other characters contain no byte of ASCII (PostgreSQL docs, 24.3.1
"Supported Character Sets"). So delimiters between values are recognised before the conversion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psycopg

_UTF8 = "UTF8"

MARK = "\xfe"
"""Before and after the hexadecimal digits of bytes that stand for no character; a byte text, see ``json_values``."""

_MARKED = re.compile(f"{MARK}([0-9a-f]+){MARK}")
_MARKED_NAME = re.compile("\udcfe([0-9a-f]+)\udcfe|([\udc80-\udcff])")
"""Marks, and bytes that are no UTF-8, as ``surrogateescape`` decodes them."""


class Unsayable(str):
    """A name with bytes that stand for no character, which it shows as escapes. No statement can contain the name."""

    __slots__ = ()


_EUC = rb"\x8f[\x80-\xff]{2}|[\x80-\xff]{2}"
_DIVIDED = {
    "EUC_CN": rb"[\x80-\xff]{2}",
    "EUC_JIS_2004": _EUC,
    "EUC_JP": _EUC,
    "EUC_KR": _EUC,
    "EUC_TW": rb"\x8e[\x80-\xff]{3}|" + _EUC,
    # Without an encoding the server cannot convert: it sends the bytes, which may be UTF-8.
    "SQL_ASCII": rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}",
}
"""The characters beyond ASCII, by src/common/wchar.c. In the encodings that are not here each is a byte."""

_BYTE = rb"[\x80-\xff]"

Ask = Callable[[Sequence[bytes]], list[bytes]]
"""What the server makes of characters, in UTF-8. Raises psycopg.Error, a ``NoCharacter`` where one of them has none."""

NoCharacter = (psycopg.errors.UntranslatableCharacter, psycopg.errors.CharacterNotInRepertoire)


class Transcoder:
    """Converts texts of a database to UTF-8, and leaves ASCII between them as it is. Asks once for each character."""

    def __init__(self, encoding: str, ask: Ask) -> None:
        several = _DIVIDED.get(encoding)
        self._divided = re.compile(b"(" + (several + b"|" if several else b"") + _BYTE + b")").split
        self._ask = ask
        self._known: dict[bytes, bytes] = {}

    def utf8(self, data: bytes) -> bytes:
        """The texts in UTF-8. Raises psycopg.Error if the server cannot be asked."""
        if data.isascii():
            return data
        parts = self._divided(data)
        known = self._known
        characters = parts[1::2]
        if new := set(characters).difference(known):
            self._learn(list(new))
        parts[1::2] = [known[character] for character in characters]
        return b"".join(parts)

    def _learn(self, characters: Sequence[bytes]) -> None:
        try:
            self._known.update(zip(characters, self._ask(characters), strict=True))
        except NoCharacter:
            if len(characters) == 1:
                mark = MARK.encode("latin-1")
                self._known[characters[0]] = mark + characters[0].hex().encode() + mark
                return
            middle = len(characters) // 2
            self._learn(characters[:middle])
            self._learn(characters[middle:])


def is_transcoded(session: psycopg.Connection) -> bool:
    """Whether the database's texts need a ``Transcoder``."""
    return encoding_of(session) != _UTF8


def encoding_of(session: psycopg.Connection) -> str:
    """The database's encoding, as the server calls it."""
    return session.info.parameter_status("server_encoding") or _UTF8


def transcoder(session: Callable[[], psycopg.Connection]) -> Transcoder | None:
    """The transcoder of a database; None if its encoding is UTF-8. ``session`` gives one in autocommit mode."""
    encoding = encoding_of(session())
    return None if encoding == _UTF8 else Transcoder(encoding, lambda characters: _converted(session(), characters))


def _converted(session: psycopg.Connection, characters: Sequence[bytes]) -> list[bytes]:
    with session.transaction():  # Where there is one already, it survives a failure.
        rows = session.execute(
            "SELECT convert(c, getdatabaseencoding(), 'UTF8') FROM unnest(%s::bytea[]) WITH ORDINALITY t (c, n)"
            " ORDER BY n",
            [list(characters)],
        ).fetchall()
    return [bytes(converted) for (converted,) in rows]


def stored(session: psycopg.Connection, text: str) -> bytes:
    """The bytes of a text in the encoding of the database. Raises psycopg.Error."""
    row = session.execute("SELECT convert_to(%s, getdatabaseencoding())", [text]).fetchone()
    assert row is not None
    return bytes(row[0])


def shown(text: str) -> str:
    """A byte text for people, with escapes instead of marks."""
    return _MARKED.sub(lambda match: _escaped(match[1]), text)


def name_of(utf8: bytes) -> str:
    """A name from the UTF-8 of a ``Transcoder``; an ``Unsayable`` if it has marks, or bytes that are no UTF-8."""
    return readable(utf8.decode("utf-8", "surrogateescape"))


def readable(text: str) -> str:
    """The name that ``name_of`` gives, from a text that was decoded with ``surrogateescape``."""
    made = _MARKED_NAME.sub(lambda match: _escaped(match[1] or f"{ord(match[2]) - 0xDC00:02x}"), text)
    return text if made == text else Unsayable(made)


def _escaped(digits: str) -> str:
    return re.sub("..", lambda pair: f"\\x{pair[0]}", digits)


# Queries for texts as the database stores them.

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
    """The rows of ``stored_rows``, by a query with placeholders ``schemas`` and ``names``: arrays, or NULL for None.

    Names that the database's encoding does not have are left out: no table has one. Raises psycopg.Error.
    """
    known = None if names is None else [name for name in names if is_sayable(session, "".join(name))]
    schemas, tables = (None if known is None else [name[part] for name in known] for part in (0, 1))
    return stored_rows(session, query, {**parameters, "schemas": schemas, "names": tables})


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
