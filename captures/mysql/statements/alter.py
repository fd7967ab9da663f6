"""ALTER TABLE, clause by clause. Types of columns are not parsed, but for their names: the catalog knows them.

Which columns get other names or values is parsed, because nothing else tells: rows that were captured before have the
old ones, and no event comes. After a clause that is not known to its end the table is read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidemark.captures.mysql.statements.actions import Action, Alteration, Change, single
from tidemark.captures.mysql.statements.keeping_clauses import COLUMN, DEFAULTS, NAME, form, keeping
from tidemark.captures.mysql.statements.tokens import END, Name, Token, Tokens

_OWN = ("UUID", "INET4", "INET6", "JSON", "VECTOR")
"""Types of MariaDB that its log does not tell from others."""

_COLUMN = re.compile(COLUMN)
_RENAMED = re.compile(rf"RENAME COLUMN (?:IF EXISTS )?{NAME} TO {NAME}")
_DROPPED = re.compile(rf"DROP (?:COLUMN )?(?:IF EXISTS )?(?!PARTITION\b){NAME}(?: RESTRICT| CASCADE)?")
_CONVERTED = re.compile(rf"CONVERT TO (?:CHARSET|CHAR(?:ACTER)? SET) (?:{NAME}|')(?: COLLATE (?:= )?(?:{NAME}|'))?")
_GONE = re.compile(
    rf"DROP PARTITION(?: IF EXISTS)? {NAME}(?: , {NAME})*|CONVERT PARTITION {NAME} TO TABLE {NAME}(?: \. {NAME})?"
)
_EXCHANGED = re.compile(rf"EXCHANGE PARTITION {NAME} WITH TABLE {NAME}(?: \. {NAME})?(?: WITH VALIDATION)?")
"""Rows that are checked: others may be of any partition."""
_MOVED = re.compile(r"(?:TRUNCATE|EXCHANGE|CONVERT|REPAIR|DISCARD|IMPORT) (?:PARTITION|TABLE|TABLESPACE)\b.*")
"""Partitions and files that lose rows or get other ones."""
_VALUED = re.compile(r"\b(?:DEFAULT (?!NULL\b)|NOT NULL\b|(?:AS|AUTO_INCREMENT|SERIAL)\b)")
"""In the definition of a new column: it may have values in rows that are there."""


@dataclass(slots=True)
class _Found:
    """What the clauses so far do: to the columns and keys of the table, and to tables."""

    table: Name
    alteration: Alteration = field(default_factory=Alteration)
    tables: list[Change] = field(default_factory=list)
    exchanged: list[Change] = field(default_factory=list)

    def key(self, clause: str) -> None:
        """Notes what may be the key, or part of it, by the form of a clause."""
        words = clause.split()
        of_index = words[0] in ("DROP", "RENAME") and words[1] in ("INDEX", "KEY", "CONSTRAINT")
        self.alteration.primary |= "PRIMARY" in words
        # Without a primary key it is the first unique index by name that is the key.
        self.alteration.unique |= "UNIQUE" in words or of_index

    def refilled(self) -> None:
        if (change := Change(Action.REFILLED, self.table)) not in self.tables:
            self.tables.append(change)

    def unknown(self) -> None:
        """A clause is not known, or not to its end."""
        self.alteration.unknown = True
        self.refilled()


def alter(statement: Tokens) -> list[Change] | None:
    """What ALTER TABLE changes, after the verb; None if it is another statement."""
    ignores = False
    while (word := statement.peek().upper) in ("ONLINE", "OFFLINE", "IGNORE"):
        ignores |= word == "IGNORE"
        statement.take()
    if not statement.accept("TABLE"):
        return None
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
    for clause in _clauses(statement):
        if clause.peek() is not END:
            _clause(clause, found)
    # What a partition is for is known until the table is read again as an altered one.
    return [*found.exchanged, Change(Action.ALTERED, name, alteration=found.alteration), *found.tables]


def _clauses(statement: Tokens) -> Iterator[Tokens]:
    """The clauses, cut at the commas between them, and before a partitioning, which needs none."""
    clause: list[Token] = []
    depth = 0
    for token in statement.rest():
        word = token.upper
        depth += (word == "(") - (word == ")")
        last = clause[-1].upper if clause else ""
        if depth == 0 and word == "," and not _lists_names(clause):
            yield Tokens(iter(clause), statement.schema)
            clause = []
        elif depth == 0 and len(clause) > 1 and (last, word) in (("PARTITION", "BY"), ("REMOVE", "PARTITIONING")):
            yield Tokens(iter(clause[:-1]), statement.schema)
            clause = [clause[-1], token]
        else:
            clause.append(token)
    yield Tokens(iter(clause), statement.schema)


def _lists_names(clause: list[Token]) -> bool:
    """Whether commas in it do not end it."""
    first, second = [token.upper for token in clause[:2]] if len(clause) > 1 else ("", "")
    return second == "PARTITION" or (first, second) == ("ORDER", "BY")


def _clause(clause: Tokens, found: _Found) -> None:
    text = form(clause.remaining())
    entry = keeping(text)
    if entry is not None:
        found.key(text)
        if entry is DEFAULTS:
            clause.take()
            clause.accept("COLUMN")
            clause.exists_clause()
            found.alteration.redefaulted += (clause.word(),)
        return
    verb = clause.take().upper
    clause.accept("COLUMN")
    match verb:
        case "RENAME" if _RENAMED.fullmatch(text):
            clause.exists_clause()
            old = clause.word()
            clause.accept("TO")
            found.alteration.renamed += ((old, clause.word()),)
        case "RENAME" if not text.startswith("RENAME COLUMN "):
            clause.accept("TO", "AS", "=")
            if (new := clause.name()) is not None:
                found.tables.append(Change(Action.RENAMED, found.table, new))
            if new is None or clause.peek() is not END:
                found.unknown()
        case "CHANGE":
            clause.exists_clause()
            old, new_name = clause.word(), clause.word()
            if new_name != old:
                found.alteration.renamed += ((old, new_name),)
            _column(new_name, clause, found, added=False)
        case "MODIFY":
            clause.exists_clause()
            _column(clause.word(), clause, found, added=False)
        case "ADD":
            _add(clause, found)
        case "DROP" if _DROPPED.fullmatch(text):
            clause.exists_clause()
            found.alteration.dropped += (clause.word(),)
        case "CONVERT" if _CONVERTED.fullmatch(text):
            found.alteration.texts = True
        case "DROP" | "CONVERT" if _GONE.fullmatch(text):
            clause.take()
            found.tables.append(Change(Action.PARTITION_GONE, found.table, partitions=_partitions(clause)))
            _other_tables(verb, clause, found)
        case "EXCHANGE" if _EXCHANGED.fullmatch(text):
            clause.take()
            found.exchanged.append(Change(Action.EXCHANGED, found.table, partitions=(clause.word(),)))
            _other_tables(verb, clause, found)
        case _:
            if _MOVED.fullmatch(text):
                found.refilled()
            else:
                found.unknown()
            _other_tables(verb, clause, found)


def _partitions(clause: Tokens) -> tuple[str, ...]:
    clause.exists_clause()
    found = [clause.word()]
    while clause.accept(","):
        found.append(clause.word())
    return tuple(found)


def _add(clause: Tokens, found: _Found) -> None:
    clause.exists_clause()
    tokens = clause.remaining()
    if clause.accept("("):
        if tokens[-1].upper != ")":
            found.unknown()
        for definition in _clauses(Tokens(iter(tokens[1:-1]), clause.schema)):
            _clause(Tokens(iter((Token("word", "ADD"), *definition.rest())), clause.schema), found)
    elif form(tokens) == "SYSTEM VERSIONING":
        found.tables.append(Change(Action.VERSIONED, found.table))
    else:
        name = clause.word()
        found.alteration.added += (name,)
        _column(name, clause, found, added=True)


def _column(name: str, definition: Tokens, found: _Found, *, added: bool) -> None:
    """A column's definition, after its name; unless it is ``added``, rows have values in it already."""
    tokens = definition.remaining()
    text = form(tokens)
    known = _COLUMN.fullmatch(text)
    if known is None or not name:
        found.unknown()
        return
    if (kind := tokens[0].upper) in _OWN:
        found.alteration.own += ((name, kind.lower()),)
    place = None
    if known["place"]:
        place = "" if known["place"] == " FIRST" else tokens[-1].text
    found.key(text)
    found.alteration.primary |= re.search(r"(?<!UNIQUE) KEY\b", text) is not None
    if not added or _VALUED.search(text):
        found.alteration.revalued += (name,)
    if added or place is not None:
        found.alteration.placed += ((name, place),)


def _other_tables(verb: str, clause: Tokens, found: _Found) -> None:
    """What a clause that moves rows does to another table: of MariaDB a partition becomes a table, or the other way."""
    taken = clause.peek().upper == "TABLE"
    for token in clause.rest():
        if token.upper != "TABLE":
            continue
        if verb == "EXCHANGE":
            found.tables += single(Action.REFILLED, clause.name())
        elif verb == "CONVERT":
            found.tables += single(Action.DROPPED if taken else Action.CREATED, clause.name())
