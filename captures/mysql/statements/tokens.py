"""SQL of the log cut into tokens. Comments are passed over; what the server executes of them is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag

_TOKEN = r"""
    (?P<blank>[ \t\n\v\f\r]+ | (?:--(?=[\x00-\x20\x7f]|\Z)|\#)[^\n\0]* | /\*(?!{executed})(?s:.*?)(?:\*/|(?=\0)|\Z))
    | (?P<executed>/\*{executed}(?:\d{{5,6}})?)
    | (?P<closed>\*/)
    | `(?P<ticked>(?:[^`]|``)*)`
    | "(?P<{quoted}>(?:{in_quotes}|"")*)"
    | '(?P<string>(?:{in_string}|'')*)'
    | (?P<word>[0-9A-Za-z_$\u0080-\U0010ffff]+)
    | (?P<mark>.)
"""
"""White space and control characters are those of ASCII: others are characters of a name. No comment hides a NUL."""

_LIMIT = 1 << 20
"""Characters of a statement that are looked at: definitions are shorter."""

_CUT = "\0"
"""In place of what is not looked at."""

Name = tuple[str, str]
"""Schema and table."""


class SqlMode(IntFlag):
    """The ``sql_mode`` of a statement, as far as it decides what it means, with the bits of both servers' logs."""

    ANSI_QUOTES = 1 << 2
    """What is in double quotes is a name."""
    NO_AUTO_VALUE_ON_ZERO = 1 << 19
    """0 in a column that counts up stays 0."""
    NO_BACKSLASH_ESCAPES = 1 << 20
    """A backslash in a string is a character like others."""
    STRICT_TRANS_TABLES = 1 << 21
    STRICT_ALL_TABLES = 1 << 22
    PAD_CHAR_TO_FULL_LENGTH = 1 << 31
    """A ``char`` is read with the spaces at its end, also by an ALTER that makes another type of it."""

    @property
    def strict(self) -> bool:
        """A statement fails rather than to change a value that does not fit."""
        return bool(self & (SqlMode.STRICT_TRANS_TABLES | SqlMode.STRICT_ALL_TABLES))


NO_MODE = SqlMode(0)


@dataclass(frozen=True, slots=True)
class Token:
    """A token: ``word``, ``ticked``, ``string`` or ``mark``; quotes are taken off its text."""

    kind: str
    text: str

    @property
    def upper(self) -> str:
        """A keyword or a mark; empty for what is quoted, which is neither."""
        return self.text.upper() if self.kind in ("word", "mark") else ""

    @property
    def is_name(self) -> bool:
        """Whether it can be a name."""
        return self.kind in ("word", "ticked")


END = Token("mark", "")
"""What follows the last token."""


class Tokens:
    """Tokens, with a look ahead."""

    def __init__(self, tokens: Iterator[Token], schema: str) -> None:
        self._tokens = tokens
        self._next: list[Token] = []
        self.schema = schema

    def peek(self) -> Token:
        """The next token, ``END`` after the last."""
        if not self._next:
            self._next.append(next(self._tokens, END))
        return self._next[0]

    def take(self) -> Token:
        """The next token, which is passed."""
        token = self.peek()
        if token is not END:
            self._next.clear()
        return token

    def accept(self, *words: str) -> bool:
        """Takes the next token if it is one of the words."""
        if self.peek().upper in words:
            self.take()
            return True
        return False

    def exists_clause(self) -> None:
        """Passes over IF EXISTS and IF NOT EXISTS."""
        if self.accept("IF"):
            self.accept("NOT")
            self.accept("EXISTS")

    def name(self) -> Name | None:
        """A table's name, None where there is none."""
        first = self.take()
        if not first.is_name:
            return None
        if not self.accept("."):
            return self.schema, first.text
        second = self.take()
        return (first.text, second.text) if second.is_name else None

    def word(self) -> str:
        """A column's name; empty where there is none."""
        return self.take().text if self.peek().is_name else ""

    def rest(self) -> Iterator[Token]:
        """All tokens that are left."""
        while (token := self.take()) is not END:
            yield token

    def remaining(self) -> list[Token]:
        """All tokens that are left, and stay."""
        left = [*self._next, *self._tokens]
        self._next, self._tokens = [], iter(left)
        return left


def statement_tokens(text: bytes, schema: str, mode: SqlMode = NO_MODE, *, mariadb: bool = False) -> Tokens:
    """The tokens of a statement in UTF-8; of a very long one those of its beginning, and a mark of no meaning. MariaDB
    has comments of its own that are code.
    """
    whole = text[: 4 * _LIMIT].decode("utf-8", "replace")
    cut = len(text) > 4 * _LIMIT or len(whole) > _LIMIT
    return Tokens(_read(whole[:_LIMIT] + (_CUT if cut else ""), _pattern(mode, mariadb)), schema)


def _pattern(mode: SqlMode, mariadb: bool) -> re.Pattern[str]:
    escaped = "" if mode & SqlMode.NO_BACKSLASH_ESCAPES else r"|\\."
    without = "" if mode & SqlMode.NO_BACKSLASH_ESCAPES else r"\\"
    names = bool(mode & SqlMode.ANSI_QUOTES)
    text = _TOKEN.format(
        executed="M?!" if mariadb else "!",
        quoted="name" if names else "text",
        in_quotes='[^"]' if names else f'[^"{without}]{escaped}',
        in_string=f"[^'{without}]{escaped}",
    )
    return re.compile(text, re.VERBOSE | re.DOTALL)  # The module keeps those that were made last.


_QUOTES = {"ticked": ("ticked", "`"), "name": ("ticked", '"'), "text": ("string", '"'), "string": ("string", "'")}
"""The kind of what is in quotes, and the quote."""


def _read(text: str, pattern: re.Pattern[str]) -> Iterator[Token]:
    at, executed = 0, False
    while match := pattern.match(text, at):
        at, kind = match.end(), match.lastgroup or "mark"
        if kind in _QUOTES:
            kind, quote = _QUOTES[kind]
            yield Token(kind, match[match.lastgroup or ""].replace(quote * 2, quote))
        elif kind == "executed":
            executed = True
        elif kind == "closed" and executed:
            executed = False
        elif kind == "closed":
            at -= 1
            yield Token("mark", "*")
        elif kind != "blank":
            yield Token(kind, match[kind])
