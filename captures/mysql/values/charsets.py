"""Converts texts from the character set of their column to UTF-8, as the server does. Names are the server's.

The server converts a chunk's texts, but not the log's. Other programs' tables for a set of the same name differ from
the server's in hundreds of characters, so the tables of most sets come from the server itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tidemark.captures.mysql.server.session import Session, asking
from tidemark.captures.tables.bad_values import UNDECODABLE, BadValue

UTF8 = frozenset(("utf8mb4", "utf8mb3", "utf8"))
"""Character sets whose texts are UTF-8 as they are."""

Recode = Callable[[str], str]
"""Converts a byte text in a character set to UTF-8. Raises ValueError or LookupError for invalid bytes."""

RecodeOf = Callable[[str], Recode | None]
"""The converter of a character set; None if its texts are UTF-8. Raises LookupError for an unknown set."""

_CODECS = {
    "ucs2": "utf_16_be",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
}
"""All of Unicode, by a rule."""

# Python's codec is that of GB 18030-2000. In the server's edition of 2005 these two are swapped.
_GB18030_2005 = str.maketrans("\ue7c7\u1e3f", "\u1e3f\ue7c7")

_LONGEST = 3
"""Bytes of a character in any other set."""

# The server's latin1 is Windows-1252, with the five bytes that it leaves open as the controls of ISO 8859-1.
_LATIN1 = "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(256))
_LATIN1_UTF8 = {b: _LATIN1[b].encode().decode("latin-1") for b in range(128, 256)}

_DIGITS = "(SELECT 0 n UNION ALL " + " UNION ALL ".join(f"SELECT {n}" for n in range(1, 16)) + ")"
_CHARACTERS = f"""
    SELECT CAST(coded AS BINARY), CAST(CONVERT(coded USING utf8mb4) AS BINARY)
    FROM (SELECT CHAR(%s + a.n * 16 + b.n + c.n * 4096 + d.n * 256 USING {{charset}}) coded
          FROM {_DIGITS} a JOIN {_DIGITS} b JOIN {_DIGITS} c JOIN {_DIGITS} d WHERE c.n <= %s AND d.n <= %s) numbers
    WHERE CHAR_LENGTH(coded) = 1
"""
"""The characters whose bytes, after a prefix, are such numbers. Without recursion, which MySQL 5.7 lacks."""


def built_in(charset: str) -> Recode | None:
    """See ``RecodeOf``. Raises LookupError also for sets whose tables the server must give."""
    if charset in UTF8 or charset == "binary":
        return None  # The server converts no bytes: labels and names are what a client wrote, nearly always UTF-8.
    if charset == "latin1":
        return _from_latin1
    if charset == "gb18030":
        return _from_gb18030
    codec = _CODECS[charset]
    return lambda text: text.encode("latin-1").decode(codec).encode().decode("latin-1")


class Charsets:
    """The character sets of a server. Used by one thread."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session
        self._known: dict[str, Recode] = {}
        self._collations: dict[int, str] | None = None

    def of_collation(self, number: int) -> str:
        """The character set of a collation, ``collation 999`` where the server has none of this number.

        Raises SourceError when the server cannot be asked.
        """
        if self._collations is None:
            with asking("reading the collations"):
                self._collations = _collations(self._session())
        return self._collations.get(number) or f"collation {number}"

    def recode(self, charset: str) -> Recode | None:
        """See ``RecodeOf``. Raises SourceError when the server cannot be asked."""
        try:
            return built_in(charset)
        except LookupError:
            pass
        if charset not in self._known:
            with asking(f"reading the characters of {charset}"):
                self._known[charset] = _by_table(_characters(self._session(), charset))
        return self._known[charset]


def _collations(session: Session) -> dict[int, str]:
    """The character set of each collation, by number. Raises pymysql.Error."""
    # MariaDB builds a collation of UCA 14.0.0 for several sets, and lists each in the other view only.
    several = session.mariadb and session.version >= (10, 10)
    view = "collation_character_set_applicability" if several else "collations"
    rows = session.rows(f"SELECT id, character_set_name FROM information_schema.{view}")
    return {int(number): str(charset) for number, charset in rows if number is not None and charset is not None}


def _characters(session: Session, charset: str) -> dict[str, str]:
    """Each character of a set, and the same in UTF-8, as byte texts. Raises pymysql.Error, LookupError."""
    found = session.value("SELECT maxlen FROM information_schema.character_sets WHERE character_set_name = %s", charset)
    if found is None or int(found) > _LONGEST:
        raise LookupError(charset)
    query = _CHARACTERS.replace("{charset}", charset)
    most = 0 if int(found) == 1 else 15
    rows = session.rows(query, 0, most, most)
    if int(found) == _LONGEST:
        rows += session.rows(query, 0x8F0000, most, most)
    return {coded.decode("latin-1"): text.decode("latin-1") for coded, text in rows}


def _by_table(characters: dict[str, str]) -> Recode:
    """Recodes by a table of whole characters, both sides byte texts."""
    changed = {character: text for character, text in characters.items() if character != text}
    by_length = sorted({len(character) for character in characters}, reverse=True)
    if by_length == [1]:
        places = str.maketrans(changed)
        return lambda text: text.translate(places)
    # Longest first: the beginning of a longer character is no character by itself.
    patterns = []
    for length in by_length:
        first = "".join(
            sorted({re.escape(each[0]) for each in characters if len(each) == length and not each.isascii()})
        )
        patterns.append(f"[{first}][\\x00-\\xff]{{{length - 1}}}" if length > 1 else "[^\\x00-\\x7f]")
    character = re.compile("|".join(patterns), re.DOTALL)

    def convert(text: str) -> str:
        return text if text.isascii() else character.sub(lambda found: characters[found[0]], text)

    return convert


# Sets in which half of a surrogate pair is a character by itself. The server prints each half as three bytes, which are
# not UTF-8. The log has them unchanged.
HALVES = {"ucs2": "utf_16_be", "utf32": "utf_32_be"}


def joined_halves(charset: str, *, digits: bool = False) -> Recode:
    """Converts printed texts of a set of ``HALVES`` to what ``built_in`` makes of the stored ones; with ``digits`` an
    invalid text to the hexadecimal digits of the stored bytes, instead of an error.
    """
    codec = HALVES[charset]

    def join(text: str) -> str:
        if "\xed" not in text:
            return text
        stored = text.encode("latin-1").decode("utf-8", "surrogatepass").encode(codec, "surrogatepass")
        try:
            return stored.decode(codec).encode().decode("latin-1")
        except UnicodeDecodeError:
            if digits:
                return f"\\x{stored.hex()}"
            raise BadValue(UNDECODABLE) from None

    return join


def _from_latin1(text: str) -> str:
    return text if text.isascii() else text.translate(_LATIN1_UTF8)


def _from_gb18030(text: str) -> str:
    return text.encode("latin-1").decode("gb18030").translate(_GB18030_2005).encode().decode("latin-1")
