"""SQL of the log cut into tokens. Comments are passed over; what the server executes of them is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[ \t][^\n]*|--$|\#[^\n]*|/\*(?!M?!)(?s:.*?)\*/)
    | (?P<executed>/\*M?!\d*|\*/)
    | `(?P<ticked>(?:[^`]|``)*)`
    | "(?P<quoted>(?:[^"\\]|""|\\.)*)"
    | '(?P<string>(?:[^'\\]|''|\\.)*)'
    | (?P<word>[\w$\u0080-\uffff]+)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_LIMIT = 1 << 20
"""Characters of a statement that are looked at: definitions are shorter."""

NAMES = ("word", "ticked", "quoted")
"""Kinds of tokens that can be names."""

Name = tuple[str, str]
"""Schema and table."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token: ``word``, ``ticked``, ``quoted``, ``string`` or ``mark``; quotes are taken off its text."""

    kind: str
    text: str

    @property
    def upper(self) -> str:
        """A keyword or a mark; empty for what is quoted, which is neither."""
        return self.text.upper() if self.kind in ("word", "mark") else ""

    @property
    def is_name(self) -> bool:
        """Whether it can be a name."""
        return self.kind in NAMES


END = Token("mark", "")
"""What follows the last token."""


class Tokens:
    """Tokens, with a look ahead.

    Args:
        tokens: In order.
        schema: The default database, of names without one.
    """

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

    def clauses(self) -> Iterator[Tokens]:
        """What is left, cut at the commas that are in no parentheses."""
        clause: list[Token] = []
        depth = 0
        for token in self.rest():
            depth += (token.upper == "(") - (token.upper == ")")
            if token.upper == "," and depth == 0:
                yield Tokens(iter(clause), self.schema)
                clause = []
            else:
                clause.append(token)
        yield Tokens(iter(clause), self.schema)


def statement_tokens(text: bytes, schema: str) -> Tokens:
    """The tokens of a statement in UTF-8; of a very long one those of its beginning."""
    return Tokens(_read(text[: 4 * _LIMIT].decode("utf-8", "replace")[:_LIMIT]), schema)


def _read(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "mark"
        if kind in ("blank", "executed"):
            continue
        value = match[kind]
        if kind in ("ticked", "quoted", "string"):
            quote = {"ticked": "`", "quoted": '"', "string": "'"}[kind]
            value = value.replace(quote * 2, quote)
        yield Token(kind, value)
