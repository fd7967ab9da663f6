"""Many changes at once: a table for each, all in one capture, and what became of the rows of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.captures.postgres.tables_that_change.capturing import capturing, held, kept
from tests.captures.session import Json, Late, Session
from tidemark.testing.servers.postgres import Database

ROWS = 40
SECONDS = 60

PLAIN = (
    "CREATE TABLE {t} (id int PRIMARY KEY, a varchar(20), b text, n int, d text NOT NULL DEFAULT 'd')",
    f"INSERT INTO {{t}} SELECT i, 'a' || i, 'b' || i, i FROM generate_series(1, {ROWS}) i",
)
PARTS = (
    "CREATE TABLE {t} (id int PRIMARY KEY, a varchar(20), b text) PARTITION BY RANGE (id)",
    "CREATE TABLE {t}_low PARTITION OF {t} FOR VALUES FROM (0) TO (20)",
    "CREATE TABLE {t}_high PARTITION OF {t} FOR VALUES FROM (20) TO (1000)",
    f"INSERT INTO {{t}} SELECT i, 'a' || i, 'b' || i FROM generate_series(1, {ROWS}) i",
)


@dataclass(frozen=True)
class Change:
    """A change of one table.

    Attributes:
        statements: In them ``{t}`` is the table, and ``{n}`` how often the change was made before. One that has
            ``BEGIN;`` is a transaction, any other one commits by itself.
        create: Makes the table, with rows.
        query: What documents have.
    """

    statements: tuple[str, ...]
    create: tuple[str, ...] = PLAIN
    query: str = "SELECT * FROM {t}"


class Outcome(Counter[str]):
    """How many documents of each kind a table had after its first backfill: see ``capturing.operations``."""

    @property
    def what(self) -> str:
        """What the connector took the change for."""
        if self["t"]:
            return "emptied"
        return "read" if self["s"] else "kept"


def outcomes(
    database: Database, changes: Mapping[str, Change], resource: Json | None = None, **config: Any
) -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    """Makes all changes while a connector runs, and again while none does.

    Returns what became of each, live and stopped, once all tables equal what documents give.
    """
    names = [f"t{number}" for number in range(len(changes))]
    tables = [f"public.{name}" for name in names]
    for name, change in zip(names, changes.values(), strict=True):
        _run(database, name, change.create, 0)
    with capturing(database, tables=tables, resource=resource, **config) as first:
        first.until(Session.done, SECONDS)
        begun = len(first.documents)
        for name, change in zip(names, changes.values(), strict=True):
            _run(database, name, change.statements, 0)
        try:
            first.until(lambda c: c.done() and not _unequal(c, database, names, changes), SECONDS)
        except Late as late:
            raise AssertionError(f"{_unequal(first, database, names, changes)}") from late
    # What the connector has not seen yet, the next one compares.
    second = _stopped(database, first, tables, resource, config)
    live = _outcomes(second, changes, begun)
    done = len(second.documents)
    for name, change in zip(names, changes.values(), strict=True):
        _run(database, name, change.statements, 1)
    third = _stopped(database, second, tables, resource, config)
    assert not (wrong := _unequal(third, database, names, changes)), wrong
    return live, _outcomes(third, changes, done)


def _stopped(
    database: Database, before: Session, tables: Sequence[str], resource: Json | None, config: Json
) -> Session:
    with capturing(database, before.state, tables=tables, resource=resource, stop=True, **config) as capture:
        assert capture.finish() == 0, capture.last_words()
    capture.documents[:0] = before.documents
    capture.logs[:0] = before.logs
    return capture


def _run(database: Database, name: str, statements: Sequence[str], number: int) -> None:
    with database.connect() as connection:
        for statement in statements:
            connection.execute(statement.replace("{t}", name).replace("{n}", str(number)).encode())


def _outcomes(capture: Session, changes: Mapping[str, Change], since: int) -> dict[str, Outcome]:
    found = {name: Outcome() for name in changes}
    by_binding = list(found.values())
    for binding, document in capture.documents[since:]:
        op = document["_meta"]["op"]
        by_binding[binding]["s" if op == "c" and document["_meta"]["source"].get("snapshot") else op] += 1
    return found


def _unequal(
    capture: Session, database: Database, names: Sequence[str], changes: Mapping[str, Change]
) -> dict[str, str]:
    """What is wrong with tables, by their changes."""
    wrong = {}
    for binding, (name, (what, change)) in enumerate(zip(names, changes.items(), strict=True)):
        there = held(database, change.query.replace("{t}", name))
        columns = {column for row in there for column in json.loads(row)}
        here: Counter[str] = Counter()
        for row, count in kept(capture, binding=binding).items():
            values = json.loads(row)
            here[json.dumps({column: values.get(column) for column in columns}, sort_keys=True)] += count
        if there != here:
            lacking, extra = (there - here).total(), (here - there).total()
            wrong[what] = f"{name}: {lacking} rows are missing, {extra} are too many"
    return wrong
