"""Statements in the log: which of them change which tables.

What is not understood is passed over: rows that do not fit their table show it.
"""

from __future__ import annotations

from tidemark.captures.mysql.statements.actions import Action, Alteration, Change, single
from tidemark.captures.mysql.statements.alter import alter
from tidemark.captures.mysql.statements.tokens import END, Tokens, statement_tokens
from tidemark.captures.mysql.statements.writes import WRITES, anything


def changes(text: bytes, schema: str) -> list[Change]:
    """What a statement changes.

    Args:
        schema: Its session's default database.
    """
    statement = statement_tokens(text, schema)
    verb = statement.take().upper
    if verb == "SET" and statement.accept("STATEMENT"):
        for token in statement.rest():
            if token.upper == "FOR":
                break
        verb = statement.take().upper
    reader = _READERS.get(verb)
    return reader(statement) if reader is not None else []


def _create(statement: Tokens) -> list[Change]:
    if statement.accept("OR"):
        statement.accept("REPLACE")
    temporary = unique = False
    for token in iter(statement.take, END):
        temporary |= token.upper == "TEMPORARY"
        unique |= token.upper == "UNIQUE"
        if token.upper == "TABLE":
            action = Action.ENSURED if statement.peek().upper == "IF" else Action.CREATED
            action = Action.SHADOWED if temporary else action
            statement.exists_clause()
            return [*single(action, statement.name()), *(_selected(statement) if not temporary else ())]
        if token.upper == "INDEX":
            return _index(statement, unique=unique)
        if token.upper not in ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE", "OFFLINE", "TEMPORARY"):
            return []
    return []


def _selected(statement: Tokens) -> list[Change]:
    """CREATE TABLE of a SELECT: where the log has rows, it has the columns' definitions instead."""
    for token in statement.rest():
        if token.upper == "SELECT":
            return anything(statement)
    return []


def _index(statement: Tokens, *, unique: bool) -> list[Change]:
    """CREATE INDEX and DROP INDEX: the table comes after ON."""
    for token in statement.rest():
        if token.upper == "ON":
            name = statement.name()
            return [Change(Action.ALTERED, name, alteration=Alteration(unique=unique))] if name is not None else []
    return []


def _drop(statement: Tokens) -> list[Change]:
    temporary = statement.accept("TEMPORARY")
    if statement.accept("DATABASE", "SCHEMA"):
        statement.exists_clause()
        schema = statement.take()
        return [Change(Action.DROPPED, (schema.text, ""))] if schema is not END else []
    statement.accept("ONLINE", "OFFLINE")
    if statement.accept("INDEX"):
        return _index(statement, unique=True)
    if not statement.accept("TABLE", "TABLES"):
        return []
    statement.exists_clause()
    return _each(Action.UNCOVERED if temporary else Action.DROPPED, statement)


def _truncate(statement: Tokens) -> list[Change]:
    statement.accept("TABLE")
    return single(Action.EMPTIED, statement.name())


def _rename(statement: Tokens) -> list[Change]:
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


def _repair(statement: Tokens) -> list[Change]:
    """REPAIR TABLE: rows that cannot be repaired are lost."""
    statement.accept("NO_WRITE_TO_BINLOG", "LOCAL")
    if not statement.accept("TABLE", "TABLES"):
        return []
    return _each(Action.REFILLED, statement)


def _each(action: Action, statement: Tokens) -> list[Change]:
    """Tables by their names, with commas between them."""
    found = []
    while (name := statement.name()) is not None:
        found.append(Change(action, name))
        if not statement.accept(","):
            break
    return found


_READERS = {
    "CREATE": _create,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _rename,
    "ALTER": alter,
    "REPAIR": _repair,
    **WRITES,
}
