"""Statements in the log: which of them change which tables. Columns are never parsed: the catalog knows them.

What is not understood is passed over: rows that do not fit their table show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

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

Name = tuple[str, str]
"""Schema and table."""


class Action(StrEnum):
    """What a statement does to a table."""

    CREATED = "created"
    ENSURED = "ensured"
    """Created, unless it was there: MySQL logs the statement in both cases."""
    DROPPED = "dropped"
    ALTERED = "altered"
    """Its columns or keys may be others."""
    EMPTIED = "emptied"
    REFILLED = "refilled"
    """It lost or got rows that the log does not have."""
    RENAMED = "renamed"
    WRITTEN = "written"
    """Rows were changed by a statement, in statement format."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        name: The table; an empty table name stands for all of the schema's.
        new_name: For ``RENAMED``, what it is called now.
    """

    action: Action
    name: Name
    new_name: Name = ("", "")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind in ("word", "mark") else ""


_END = _Token("mark", "")


class _Statement:
    """Tokens with a look ahead."""

    def __init__(self, text: str, schema: str) -> None:
        self._tokens = self._read(text[:_LIMIT])
        self._next: list[_Token] = []
        self.schema = schema

    def _read(self, text: str) -> Iterator[_Token]:
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or "mark"
            if kind in ("blank", "executed"):
                continue
            value = match[kind]
            if kind in ("ticked", "quoted", "string"):
                quote = {"ticked": "`", "quoted": '"', "string": "'"}[kind]
                value = value.replace(quote * 2, quote)
            yield _Token(kind, value)

    def peek(self) -> _Token:
        if not self._next:
            self._next.append(next(self._tokens, _END))
        return self._next[0]

    def take(self) -> _Token:
        token = self.peek()
        if token is not _END:
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
        if first.kind not in ("word", "ticked", "quoted"):
            return None
        if not self.accept("."):
            return self.schema, first.text
        second = self.take()
        return (first.text, second.text) if second.kind in ("word", "ticked", "quoted") else None

    def rest(self) -> Iterator[_Token]:
        while (token := self.take()) is not _END:
            yield token


def changes(text: bytes, schema: str) -> list[Change]:
    """What a statement changes.

    Args:
        schema: Its session's default database.
    """
    statement = _Statement(text.decode("utf-8", "replace"), schema)
    if statement.accept("SET"):
        if not statement.accept("STATEMENT"):
            return []
        for token in statement.rest():
            if token.upper == "FOR":
                break
    verb = statement.take().upper
    reader = _READERS.get(verb)
    return reader(statement) if reader is not None else []


def _create(statement: _Statement) -> list[Change]:
    if statement.accept("OR"):
        statement.accept("REPLACE")
    for token in iter(statement.take, _END):
        if token.upper == "TEMPORARY":
            return []
        if token.upper == "TABLE":
            action = Action.ENSURED if statement.peek().upper == "IF" else Action.CREATED
            statement.exists_clause()
            return _single(action, statement.name())
        if token.upper == "INDEX":
            return _index(statement)
        if token.upper not in ("UNIQUE", "FULLTEXT", "SPATIAL", "ONLINE", "OFFLINE"):
            return []
    return []


def _index(statement: _Statement) -> list[Change]:
    """CREATE INDEX and DROP INDEX: the table comes after ON."""
    for token in statement.rest():
        if token.upper == "ON":
            return _single(Action.ALTERED, statement.name())
    return []


def _drop(statement: _Statement) -> list[Change]:
    if statement.accept("TEMPORARY"):
        return []
    if statement.accept("DATABASE", "SCHEMA"):
        statement.exists_clause()
        schema = statement.take()
        return [Change(Action.DROPPED, (schema.text, ""))] if schema is not _END else []
    statement.accept("ONLINE", "OFFLINE")
    if statement.accept("INDEX"):
        return _index(statement)
    if not statement.accept("TABLE", "TABLES"):
        return []
    statement.exists_clause()
    found = []
    while (name := statement.name()) is not None:
        found.append(Change(Action.DROPPED, name))
        if not statement.accept(","):
            break
    return found


def _truncate(statement: _Statement) -> list[Change]:
    statement.accept("TABLE")
    return _single(Action.EMPTIED, statement.name())


def _rename(statement: _Statement) -> list[Change]:
    if not statement.accept("TABLE", "TABLES"):
        return []
    statement.exists_clause()
    found: list[Change] = []
    while True:
        old = statement.name()
        if statement.accept("WAIT"):
            statement.take()
        statement.accept("NOWAIT")
        if old is None or not statement.accept("TO"):
            return found
        new = statement.name()
        if new is None:
            return found
        found.append(Change(Action.RENAMED, old, new))
        if not statement.accept(","):
            return found


def _alter(statement: _Statement) -> list[Change]:
    while statement.accept("ONLINE", "OFFLINE", "IGNORE"):
        pass
    if not statement.accept("TABLE"):
        return []
    statement.exists_clause()
    name = statement.name()
    if name is None:
        return []
    found = [Change(Action.ALTERED, name)]
    depth, previous = 0, ""
    for token in statement.rest():
        word = token.upper
        depth += (word == "(") - (word == ")")
        if depth == 0 and previous in ("", ","):
            if word == "RENAME":
                found += _renamed_by_alter(statement, name)
            elif word in ("TRUNCATE", "DROP", "EXCHANGE", "CONVERT", "DISCARD", "IMPORT"):
                found += _partitions(statement, name)
        elif word == "TABLE" and previous == "WITH":
            found += _single(Action.REFILLED, statement.name())
        # NOWAIT and WAIT n stand before what is altered.
        if not ((previous == "" and word in ("NOWAIT", "WAIT")) or (previous == "" and token.text.isdigit())):
            previous = word or "name"
    return found


def _renamed_by_alter(statement: _Statement, name: Name) -> list[Change]:
    if statement.peek().upper in ("COLUMN", "INDEX", "KEY"):
        return []
    statement.accept("TO", "AS", "=")
    new = statement.name()
    return [Change(Action.RENAMED, name, new)] if new is not None else []


def _partitions(statement: _Statement, name: Name) -> list[Change]:
    """Partitions are emptied, dropped, exchanged or become tables; tablespaces come and go: no row event says it."""
    if statement.peek().upper in ("PARTITION", "TABLESPACE", "TABLE"):
        return [Change(Action.REFILLED, name)]
    return []


def _insert(statement: _Statement) -> list[Change]:
    while statement.accept("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"):
        pass
    return _single(Action.WRITTEN, statement.name())


def _update(statement: _Statement) -> list[Change]:
    return _mentioned(statement, ("SET",))


def _delete(statement: _Statement) -> list[Change]:
    """A DELETE of everything empties: the server logs one for each MEMORY table when it starts."""
    found = []
    tokens = 0
    while statement.accept("LOW_PRIORITY", "QUICK", "IGNORE", "HISTORY", "FROM"):
        tokens += 1
    if tokens:
        name = statement.name()
        if name is not None:
            if statement.peek() is _END:
                return [Change(Action.EMPTIED, name)]
            found.append(Change(Action.WRITTEN, name))
    return found + _mentioned(statement, ("WHERE", "ORDER", "LIMIT"))


def _load(statement: _Statement) -> list[Change]:
    for token in statement.rest():
        if token.upper == "TABLE":
            return _single(Action.WRITTEN, statement.name())
    return []


def _mentioned(statement: _Statement, ends: tuple[str, ...]) -> list[Change]:
    """Every name before a word: more than the tables, but all of them."""
    found = []
    while (token := statement.peek()) is not _END and token.upper not in ends:
        if token.kind == "mark" or token.kind == "string":
            statement.take()
        elif (name := statement.name()) is not None:
            found.append(Change(Action.WRITTEN, name))
    return found


def _single(action: Action, name: Name | None) -> list[Change]:
    return [Change(action, name)] if name is not None else []


_READERS = {
    "CREATE": _create,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _rename,
    "ALTER": _alter,
    "INSERT": _insert,
    "REPLACE": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "LOAD": _load,
}
