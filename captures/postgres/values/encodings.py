"""Texts of a database whose encoding is not UTF-8, as UTF-8.

Such encodings have bytes that stand for no character (0x81 in WIN1252), and the server stores them. Its own conversion
ends the whole statement at the first of them, and a stream of the log for good. So the log and the rows of chunks come
as they are stored, and are converted here, as the server converts each character. One without a character becomes a
mark, which is no UTF-8, and so a bad value of its column.

Every encoding that a database can have leaves ASCII alone, and its other characters have no byte of ASCII in them
(PostgreSQL docs, 24.3.1 "Supported Character Sets"): what stands between values can be told before they are converted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import psycopg

_UTF8 = "UTF8"

MARK = "\xfe"
"""Before and after the hexadecimal digits of bytes that stand for no character; a byte text, see ``json_values``."""

_MARKED = re.compile(f"{MARK}([0-9a-f]+){MARK}")
_MARKED_NAME = re.compile("\udcfe([0-9a-f]+)\udcfe|([\udc80-\udcff])")
"""Marks, and bytes that are no UTF-8, as ``surrogateescape`` decodes them."""


class Unsayable(str):
    """A name with escapes in the place of bytes that stand for no character: no statement can have it."""

    __slots__ = ()


_EUC = rb"\x8f[\x80-\xff]{2}|[\x80-\xff]{2}"
_DIVIDED = {
    "EUC_CN": rb"[\x80-\xff]{2}",
    "EUC_JIS_2004": _EUC,
    "EUC_JP": _EUC,
    "EUC_KR": _EUC,
    "EUC_TW": rb"\x8e[\x80-\xff]{3}|" + _EUC,
    # The server knows no characters there, and takes what it sends for UTF-8, where it is that.
    "SQL_ASCII": rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}",
}
"""The characters beyond ASCII, by src/common/wchar.c. In the encodings that are not here each is a byte."""

_BYTE = rb"[\x80-\xff]"

Ask = Callable[[Sequence[bytes]], list[bytes]]
"""What the server makes of characters, in UTF-8. Raises psycopg.Error, a ``NoCharacter`` where one of them has none."""

NoCharacter = (psycopg.errors.UntranslatableCharacter, psycopg.errors.CharacterNotInRepertoire)


class Transcoder:
    """Converts bytes of a database's texts to UTF-8, with whatever ASCII stands between them.

    Args:
        encoding: The database's, as the server calls it.
        ask: Asked once for each character.
    """

    def __init__(self, encoding: str, ask: Ask) -> None:
        several = _DIVIDED.get(encoding)
        self._divided = re.compile(b"(" + (several + b"|" if several else b"") + _BYTE + b")").split
        self._ask = ask
        self._known: dict[bytes, bytes] = {}

    def utf8(self, data: bytes) -> bytes:
        """The same in UTF-8. Raises psycopg.Error where the server cannot be asked."""
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
    """Whether the database's texts come through a ``Transcoder``."""
    return encoding_of(session) != _UTF8


def encoding_of(session: psycopg.Connection) -> str:
    """The database's encoding, as the server calls it."""
    return session.info.parameter_status("server_encoding") or _UTF8


def transcoder(session: Callable[[], psycopg.Connection]) -> Transcoder | None:
    """Of a database; None where texts are UTF-8 as they come.

    Args:
        session: Gives one in autocommit mode that is not broken.
    """
    encoding = encoding_of(session())
    return None if encoding == _UTF8 else Transcoder(encoding, lambda characters: _converted(session(), characters))


def _converted(session: psycopg.Connection, characters: Sequence[bytes]) -> list[bytes]:
    rows = session.execute(
        "SELECT convert(c, getdatabaseencoding(), 'UTF8') FROM unnest(%s::bytea[]) WITH ORDINALITY t (c, n) ORDER BY n",
        [list(characters)],
    )
    return [bytes(converted) for (converted,) in rows]


def stored(session: psycopg.Connection, text: str) -> bytes:
    """A text as the database's encoding has it. Raises psycopg.Error."""
    row = session.execute("SELECT convert_to(%s, getdatabaseencoding())", [text]).fetchone()
    assert row is not None
    return bytes(row[0])


def shown(text: str) -> str:
    """A byte text with escapes for people in the place of marks."""
    return _MARKED.sub(lambda match: _escaped(match[1]), text)


def name_of(utf8: bytes) -> str:
    """A name as a ``Transcoder`` gives it; an ``Unsayable`` where it has marks, or bytes that are no UTF-8."""
    return readable(utf8.decode("utf-8", "surrogateescape"))


def readable(text: str) -> str:
    """As ``name_of``, of a text that was decoded with ``surrogateescape``."""
    made = _MARKED_NAME.sub(lambda match: _escaped(match[1] or f"{ord(match[2]) - 0xDC00:02x}"), text)
    return text if made == text else Unsayable(made)


def _escaped(digits: str) -> str:
    return re.sub("..", lambda pair: f"\\x{pair[0]}", digits)
