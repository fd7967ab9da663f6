"""Statements in the log: which of them change which tables.

A statement that is not understood may have changed every table that it names. The log has some instead of the rows that
they changed, because a session chose another format. Which rows those are cannot be told, nor, where triggers, views
and functions are, of which tables. So everything that could be a table's name is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemark.captures.mysql.statements.actions import Action, Alteration, Change, single
from tidemark.captures.mysql.statements.alter import alter
from tidemark.captures.mysql.statements.tokens import END, NO_MODE, Name, SqlMode, Token, Tokens, statement_tokens

_OBJECTS = """
    VIEW TRIGGER FUNCTION PROCEDURE EVENT AGGREGATE PACKAGE LIBRARY DEFINER ALGORITHM SQL USER ROLE SERVER DATABASE
    SCHEMA SEQUENCE TABLESPACE LOGFILE UNDO INSTANCE RESOURCE REFERENCE JSON PREPARE CATALOG MATERIALIZED
"""
"""What is created, altered and dropped besides tables and indexes. Views, triggers and routines may begin with the
words of how they are carried out."""

_OTHERS = frozenset(_OBJECTS.split())
_OTHER_OBJECTS = {"CREATE": _OTHERS, "ALTER": _OTHERS, "DROP": _OTHERS - {"DATABASE", "SCHEMA"}, "RENAME": {"USER"}}
"""By the verb, the words after it of statements that change no table: they may name some, or use their names."""

_VERBS = """
    GRANT REVOKE SHOW DESCRIBE DESC EXPLAIN HELP USE TABLE HANDLER CHECK CHECKSUM OPTIMIZE FLUSH CACHE KILL LOCK UNLOCK
    INSTALL UNINSTALL PREPARE DEALLOCATE PURGE RESET CHANGE START STOP SHUTDOWN RESTART CLONE BACKUP BINLOG BEGIN COMMIT
    ROLLBACK SAVEPOINT RELEASE XA SIGNAL RESIGNAL GET
"""

_NO_TABLES = {"", *_VERBS.split()}
"""Verbs of statements about accounts, the server, sessions and transactions, and of those that read tables or rebuild
them as they are. What they carry out besides, such as the rows of BINLOG, is in the log on its own."""


def changes(text: bytes, schema: str, mode: SqlMode = NO_MODE, *, mariadb: bool = False) -> list[Change]:
    """What a statement changes."""
    statement = statement_tokens(text, schema, mode, mariadb=mariadb)
    verb = statement.take().upper
    if verb == "SET" and statement.accept("STATEMENT"):
        for token in statement.rest():
            if token.upper == "FOR":
                break
        verb = statement.take().upper
    if verb in _NO_TABLES or statement.peek().upper in _OTHER_OBJECTS.get(verb, ()):
        return []
    return _READERS.get(verb, _unknown)(statement)


def _unknown(statement: Tokens) -> list[Change]:
    return [Change(Action.REFILLED, name, alteration=Alteration(unknown=True)) for name in _names(statement)]


def _create(statement: Tokens) -> list[Change]:
    if statement.accept("OR"):
        statement.accept("REPLACE")
    temporary = unique = False
    while (token := statement.peek()).upper in _BEFORE_CREATED:
        temporary |= token.upper == "TEMPORARY"
        unique |= token.upper == "UNIQUE"
        statement.take()
    if statement.accept("TABLE"):
        action = Action.ENSURED if statement.peek().upper == "IF" else Action.CREATED
        action = Action.SHADOWED if temporary else action
        statement.exists_clause()
        return [*single(action, statement.name()), *(_selected(statement) if not temporary else ())]
    if statement.accept("INDEX"):
        return _index(statement, unique=unique)
    return [] if statement.peek().upper in _OTHER_OBJECTS["CREATE"] else _unknown(statement)


_BEFORE_CREATED = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE", "OFFLINE", "TEMPORARY")


def _selected(statement: Tokens) -> list[Change]:
    """CREATE TABLE of a SELECT: where the log has rows, it has the columns' definitions instead."""
    for token in statement.rest():
        if token.upper == "SELECT":
            return _anything(statement)
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
        return _unknown(statement)
    statement.exists_clause()
    return _each(Action.UNCOVERED if temporary else Action.DROPPED, statement)


def _alter(statement: Tokens) -> list[Change]:
    found = alter(statement)
    return _unknown(statement) if found is None else found


def _truncate(statement: Tokens) -> list[Change]:
    statement.accept("TABLE")
    return single(Action.EMPTIED, statement.name())


def _rename(statement: Tokens) -> list[Change]:
    if not statement.accept("TABLE", "TABLES"):
        return _unknown(statement)
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
    if not statement.accept("TABLE", "TABLES", "VIEW"):
        return _unknown(statement)
    return _each(Action.REFILLED, statement)


def _each(action: Action, statement: Tokens) -> list[Change]:
    """Tables by their names, with commas between them."""
    found = []
    while (name := statement.name()) is not None:
        found.append(Change(action, name))
        if not statement.accept(","):
            break
    return found


_TOKENS = 10_000
"""So many of a statement are looked at for names: what it changes comes first, and long lists of values come last."""


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


def _anything(statement: Tokens) -> list[Change]:
    """It writes by the functions that it calls."""
    return _written([], statement)


def _set(statement: Tokens) -> list[Change]:
    """A variable of the user may be set to what a function returns; other settings change no rows."""
    return _anything(statement) if statement.peek().upper == "@" else []


def _analyze(statement: Tokens) -> list[Change]:
    """MariaDB: ANALYZE of a statement carries it out."""
    if statement.accept("FORMAT"):
        statement.accept("=")
        statement.take()
    reader = _WRITES.get(statement.take().upper)
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
    return _names(Tokens(iter(listed), schema))


def _written(targets: list[Name], rest: Tokens) -> list[Change]:
    others = [name for name in [*_names(rest), (rest.schema, "")] if name not in targets]
    return [Change(Action.WRITTEN, name) for name in targets] + [Change(Action.NAMED, name) for name in others]


def _names(statement: Tokens) -> list[Name]:
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


_WRITES = {
    "INSERT": _insert,
    "REPLACE": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "LOAD": _load,
    "SET": _set,
    "ANALYZE": _analyze,
    **dict.fromkeys(("SELECT", "DO", "CALL", "WITH", "VALUES", "EXECUTE", "("), _anything),
}

_READERS = {
    "CREATE": _create,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _rename,
    "ALTER": _alter,
    "REPAIR": _repair,
    **_WRITES,
}
