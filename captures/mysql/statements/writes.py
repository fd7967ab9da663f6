"""Statements that the log has instead of the rows that they changed, because a session chose another format.

Which rows those are cannot be told, nor, where triggers, views and functions are, of which tables. So everything that
could be a table's name is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemark.captures.mysql.statements.actions import Action, Change
from tidemark.captures.mysql.statements.tokens import END, Name, Token, Tokens

_TOKENS = 10_000
"""Of a statement that are looked at for names: what it changes comes first, and long lists of values come last."""


def _insert(statement: Tokens) -> list[Change]:
    while statement.accept("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"):
        pass
    target = statement.name()
    return _written([target] if target is not None else [], statement)


def _load(statement: Tokens) -> list[Change]:
    for token in statement.rest():
        if token.upper == "TABLE":
            return _insert(statement)
    return []


def _update(statement: Tokens) -> list[Change]:
    while statement.accept("LOW_PRIORITY", "IGNORE"):
        pass
    head = list(_until(statement, "SET"))
    return _written(_targets(head, statement.schema), statement)


def _delete(statement: Tokens) -> list[Change]:
    """A DELETE of everything empties. MySQL 5.7 logs one for each MEMORY table when it is opened after a restart, too;
    later servers log a TRUNCATE.
    """
    while statement.accept("LOW_PRIORITY", "QUICK", "IGNORE", "HISTORY"):
        pass
    statement.accept("FROM")
    head = list(_until(statement, "WHERE", "ORDER", "LIMIT"))
    targets = _targets(head, statement.schema)
    if len(targets) == 1 and statement.peek() is END:
        return [Change(Action.CLEARED, targets[0]), Change(Action.NAMED, (statement.schema, ""))]
    return _written(targets, statement)


def anything(statement: Tokens) -> list[Change]:
    """It writes by the functions that it calls."""
    return _written([], statement)


def _set(statement: Tokens) -> list[Change]:
    """A variable of the user may be set to what a function returns; other settings change no rows."""
    return anything(statement) if statement.peek().upper == "@" else []


def _analyze(statement: Tokens) -> list[Change]:
    """MariaDB: ANALYZE of a statement carries it out."""
    if statement.accept("FORMAT"):
        statement.accept("=")
        statement.take()
    reader = WRITES.get(statement.take().upper)
    return reader(statement) if reader is not None else []


def _until(statement: Tokens, *ends: str) -> Iterator[Token]:
    while (token := statement.peek()) is not END and token.upper not in ends:
        yield statement.take()


def _targets(tokens: Iterable[Token], schema: str) -> list[Name]:
    """The table, without its alias, where it is one; otherwise whatever is named."""
    listed = list(tokens)
    one = Tokens(iter(listed), schema)
    name = one.name()
    one.accept("AS")
    one.word()
    if name is not None and one.peek() is END:
        return [name]
    return names(Tokens(iter(listed), schema))


def _written(targets: list[Name], rest: Tokens) -> list[Change]:
    others = [name for name in [*names(rest), (rest.schema, "")] if name not in targets]
    return [Change(Action.WRITTEN, name) for name in targets] + [Change(Action.NAMED, name) for name in others]


def names(statement: Tokens) -> list[Name]:
    """Everything that could be a table: with its schema, and without."""
    found: dict[Name, None] = {}
    for _ in range(_TOKENS):
        if (token := statement.take()) is END:
            break
        if not token.is_name or token.text.isdigit():
            continue
        found[statement.schema, token.text] = None
        while statement.accept("."):
            second = statement.peek()
            if not second.is_name:
                break
            found[token.text, second.text] = None
            token = statement.take()
    return list(found)


WRITES = {
    "INSERT": _insert,
    "REPLACE": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "LOAD": _load,
    "SET": _set,
    "ANALYZE": _analyze,
    **dict.fromkeys(("SELECT", "DO", "CALL", "WITH", "VALUES", "EXECUTE", "("), anything),
}
