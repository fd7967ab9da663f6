"""ALTER TABLE, clause by clause. Types of columns are not parsed, but for their names: the catalog knows them.

Which columns get other names or values is parsed, because nothing else tells: rows that were captured before have the
old ones, and no event comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemark.captures.mysql.statements.actions import Action, Alteration, Change, single
from tidemark.captures.mysql.statements.tokens import END, Name, Token, Tokens
from tidemark.captures.mysql.tables.columns import ENGINES_WITHOUT_ROWS

_NO_COLUMN = (
    "PRIMARY",
    "UNIQUE",
    "CONSTRAINT",
    "INDEX",
    "KEY",
    "FULLTEXT",
    "SPATIAL",
    "VECTOR",
    "FOREIGN",
    "CHECK",
    "PARTITION",
    "PERIOD",
    "SYSTEM",
)
"""What comes after ADD or DROP where no column does. All but VECTOR are reserved or followed by another word."""

_NO_INDEX = ("PARTITION", "PERIOD", "SYSTEM")
"""Those of them after which no index or constraint comes, either."""

_OPTIONS = (
    "ALGORITHM",
    "AUTO_INCREMENT",
    "AVG_ROW_LENGTH",
    "CHARACTER",
    "CHARSET",
    "CHECKSUM",
    "COLLATE",
    "COMMENT",
    "COMPRESSION",
    "DEFAULT",
    "DISABLE",
    "ENABLE",
    "ENCRYPTED",
    "ENCRYPTION",
    "ENGINE",
    "FORCE",
    "KEY_BLOCK_SIZE",
    "LOCK",
    "MAX_ROWS",
    "MIN_ROWS",
    "ORDER",
    "PAGE_COMPRESSED",
    "ROW_FORMAT",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "TABLESPACE",
)
"""How clauses begin that set options of the table, or of the statement."""

_OWN = ("UUID", "INET4", "INET6", "JSON", "VECTOR")
"""Types of MariaDB that its log does not tell from others."""


@dataclass(slots=True)
class _Found:
    """What the clauses so far do: to the columns and keys of the table, and to tables."""

    table: Name
    alteration: Alteration = field(default_factory=Alteration)
    tables: list[Change] = field(default_factory=list)

    def key(self, token: Token) -> None:
        """Notes what may be the key, or part of it."""
        self.alteration.primary |= token.upper == "PRIMARY"
        self.alteration.unique |= token.upper == "UNIQUE"

    def refilled(self) -> None:
        self.tables.append(Change(Action.REFILLED, self.table))


def alter(statement: Tokens) -> list[Change]:
    """What ALTER TABLE changes, after the verb."""
    ignores = False
    while (word := statement.peek().upper) in ("ONLINE", "OFFLINE", "IGNORE"):
        ignores |= word == "IGNORE"
        statement.take()
    if not statement.accept("TABLE"):
        return []
    statement.exists_clause()
    name = statement.name()
    if name is None:
        return []
    if statement.accept("WAIT"):
        statement.take()
    statement.accept("NOWAIT")
    found = _Found(name)
    if ignores:
        found.refilled()  # Rows that a new unique index, or a new partitioning, has no place for are gone.
    for clause in statement.clauses():
        if clause.peek() is not END:
            _clause(clause, found)
    return [Change(Action.ALTERED, name, alteration=found.alteration), *found.tables]


def _clause(clause: Tokens, found: _Found) -> None:
    match clause.take().upper:
        case "RENAME":
            _rename(clause, found)
        case "CHANGE":
            clause.accept("COLUMN")
            clause.exists_clause()
            old, new = clause.word(), clause.word()
            if new != old:
                found.alteration.renamed += ((old, new),)
            _column(new, clause, found, added=False)
        case "MODIFY":
            clause.accept("COLUMN")
            clause.exists_clause()
            _column(clause.word(), clause, found, added=False)
        case "ALTER":
            if clause.peek().upper not in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
                clause.accept("COLUMN")
                clause.exists_clause()
                found.alteration.redefaulted += (clause.word(),)
        case "ADD":
            _add(clause, found)
        case "DROP":
            _drop(clause, found)
        case "EXCHANGE":
            found.refilled()
            for token in clause.rest():
                if token.upper == "TABLE":
                    found.tables += single(Action.REFILLED, clause.name())
        case "CONVERT":
            _convert(clause, found)
        case "TRUNCATE" | "DISCARD" | "IMPORT" | "REPAIR" if clause.peek().upper in ("PARTITION", "TABLESPACE"):
            found.refilled()
        case option:
            _options(option, clause, found)


def _options(first: str, clause: Tokens, found: _Found) -> None:
    """Options of the table, which no commas need to part: an engine that stores no rows has lost those that were."""
    found.alteration.unknown |= first not in _OPTIONS
    previous = first
    for token in clause.rest():
        if previous == "ENGINE" and token.upper in ENGINES_WITHOUT_ROWS:
            found.refilled()
        elif token.upper != "=":
            previous = token.upper


def _rename(clause: Tokens, found: _Found) -> None:
    if clause.accept("INDEX", "KEY"):
        found.alteration.unique = True  # Without a primary key it is the first unique index by name that is the key.
    elif clause.accept("COLUMN"):
        clause.exists_clause()
        old = clause.word()
        clause.accept("TO")
        found.alteration.renamed += ((old, clause.word()),)
    else:
        clause.accept("TO", "AS", "=")
        if (new := clause.name()) is not None:
            found.tables.append(Change(Action.RENAMED, found.table, new))


def _add(clause: Tokens, found: _Found) -> None:
    named = clause.accept("COLUMN")
    clause.exists_clause()
    if clause.accept("("):
        for definition in clause.clauses():  # What closes the parentheses is left in the last of them.
            _added(definition, found, named=named)
    else:
        _added(clause, found, named=named)


def _added(definition: Tokens, found: _Found, *, named: bool) -> None:
    first = definition.peek()
    if not named and first.upper in _NO_COLUMN:
        found.alteration.unknown |= first.upper in _NO_INDEX
        for token in definition.rest():
            found.key(token)
        return
    name = definition.word()
    found.alteration.added += (name,)
    _column(name, definition, found, added=True)


def _column(name: str, definition: Tokens, found: _Found, *, added: bool) -> None:
    """The rest of a column's definition, after its name; unless it is ``added``, rows have values in it already."""
    valued, previous, depth = not added, "", 0
    place: str | None = None
    if (kind := definition.peek().upper) in _OWN and name:
        found.alteration.own += ((name, kind.lower()),)
    for token in definition.rest():
        word = token.upper
        within = depth > 0
        depth += (word == "(") - (word == ")")
        if within:
            continue  # A condition of a CHECK names NULL, too.
        place = token.text if previous == "AFTER" and token.is_name else "" if word == "FIRST" else None
        found.alteration.unknown |= word in ("PARTITION", "REMOVE")  # Clauses that no comma need part from this one.
        given = previous == "DEFAULT" and word != "NULL"
        valued |= given or (previous == "NOT" and word == "NULL") or word in ("AS", "AUTO_INCREMENT")
        found.key(token)
        previous = word
    if valued and name:
        found.alteration.revalued += (name,)
    if added or place is not None:
        found.alteration.placed += ((name, place),)


def _drop(clause: Tokens, found: _Found) -> None:
    first = clause.peek()
    found.alteration.unknown |= first.upper in _NO_INDEX
    if first.upper == "PARTITION":
        found.refilled()
    elif first.upper == "PRIMARY":
        found.alteration.primary = True
    elif first.upper in ("INDEX", "KEY", "CONSTRAINT"):
        found.alteration.unique = True
    elif first.upper not in _NO_COLUMN:
        clause.accept("COLUMN")
        clause.exists_clause()
        found.alteration.dropped += (clause.word(),)


def _convert(clause: Tokens, found: _Found) -> None:
    """Of MariaDB a partition becomes a table, or a table a partition; of both all texts get a character set."""
    if clause.accept("TO"):
        found.alteration.texts = True
    elif clause.accept("TABLE"):
        found.refilled()
        found.tables += single(Action.DROPPED, clause.name())
    elif clause.accept("PARTITION"):
        found.refilled()
        for token in clause.rest():
            if token.upper == "TABLE":
                found.tables += single(Action.CREATED, clause.name())
