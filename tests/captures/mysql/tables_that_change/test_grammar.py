"""Every clause of ALTER TABLE, alone and in pairs, live and stopped: rows downstream end as the source's.

One capture has a table for each case. What the list of clauses that keep all values has is not read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import product

import pymysql
import pytest

from tests.captures.impatient import impatient
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import TableChunks, run
from tests.captures.mysql.tables_that_change.grammar import CLAUSES, FILL, KEEPING, ROWS, Case, alone, in_pairs
from tests.captures.session import Json, Rows, Session, bindings, replay, session
from tests.examples import sample
from tidemark.captures.mysql.statements import keeping_clauses
from tidemark.captures.mysql.statements.alter import alter
from tidemark.captures.mysql.statements.tokens import statement_tokens
from tidemark.testing.servers.mariadb import Database

COMMAND = impatient("tidemark.connectors.mysql")

CHANGES = ("UPDATE {t} SET n = 9 WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
"""After the case, if the table still has these columns."""

AT_A_TIME = 150
"""Tables of one capture."""

PAIRS = 10
"""In each run of ``make test``, which has a part of the clauses alone."""


def cases(part: int) -> Iterator[list[Case]]:
    """By captures; ``part`` of them is the place of a run among all."""
    begin = part * PAIRS
    pairs = sample(in_pairs()[part :: len(EVERY)], in_pairs()[begin : begin + PAIRS], [])
    chosen = sample(alone(), alone()[part :: len(RUNS)]) + pairs
    return (chosen[at : at + AT_A_TIME] for at in range(0, len(chosen), AT_A_TIME))


def name(number: int) -> str:
    return f"t{number}"


def rows_of(database: Database, table: str) -> tuple[Sequence[str], Rows]:
    """The key, and the rows as documents have them; no key where a table has none."""
    with closing(TableChunks(database, table)) as chunks:
        key = chunks.binding.key
        found = chunks.scan(100)[1] if key else []
    return key, {tuple(row[part] for part in key): row for row in found}


def without_nulls(rows: Rows) -> Rows:
    return {key: {column: value for column, value in row.items() if value is not None} for key, row in rows.items()}


def _replayed(capture: Session, binding: int, key: Sequence[str]) -> Rows | None:
    """What is downstream, of what came since it was emptied; None while documents do not have the key."""
    documents = [document for index, document in capture.documents if index == binding]
    emptied = [place for place, document in enumerate(documents) if document["_meta"]["op"] == "t"]
    try:
        return without_nulls(replay(documents[emptied[-1] if emptied else 0 :], key))
    except KeyError:
        return None


def _has_unknown_labels(capture: Session, number: int) -> bool:
    codes = {"TM-MY-031": "labels are not texts", "TM-MY-032": "may have labels"}
    coded = [(codes.get(line.get("fields", {}).get("code")), line["message"]) for line in capture.logs]
    return any(said and said in message and f".{name(number)} is set aside" in message for said, message in coded)


class Tables:
    """The tables of a capture, one for each case."""

    def __init__(self, database: Database, tried: Sequence[Case]) -> None:
        self._database = database
        self._tried = tried
        self.refused: set[int] = set()
        for number, case in enumerate(tried):
            made = case.table.format(t=name(number)), FILL.format(t=name(number))
            run(database, *made)
            try:
                run(database, *(statement.format(t=name(number)) for statement in case.before))
            except pymysql.Error:
                # What a server has not, or two clauses do not share, does not happen. Half of it may leave no key.
                run(database, f"DROP TABLE {name(number)}", *made)
        run(database, "CREATE TABLE the_end (id INT PRIMARY KEY)")

    def bound(self) -> list[Json]:
        tables = [name(number) for number in range(len(self._tried))]
        return bindings(*(f"{self._database.name}.{table}" for table in (*tables, "the_end")))

    def alter(self) -> None:
        for number, case in enumerate(self._tried):
            self._alter(number, case)
        run(self._database, "INSERT INTO the_end VALUES (1)")
        self._expected = {number: rows_of(self._database, name(number)) for number in range(len(self._tried))}

    def _alter(self, number: int, case: Case) -> None:
        before = rows_of(self._database, name(number)) if case.keeps in KEPT else None
        try:
            run(
                self._database,
                f"SET sql_mode = '{case.mode}'",
                *(statement.format(t=name(number)) for statement in case.alter),
            )
        except pymysql.Error:
            self.refused.add(number)
        if before is not None:
            assert rows_of(self._database, name(number))[1] == before[1] or number in self.refused, case.alter
        for statement in (*case.after, *CHANGES):
            with suppress(pymysql.Error):
                run(self._database, statement.format(t=name(number)))

    def differences(self, capture: Session) -> list[str]:
        """What is downstream and not in the source, or the other way.

        Tables are set aside that lost their key, and those with labels that neither the log nor the catalog shows: a
        server makes such of an enum whose character set becomes utf16, if its mode is not strict.
        """
        found = []
        for number, (key, rows) in self._expected.items():
            if (
                key
                and not _has_unknown_labels(capture, number)
                and _replayed(capture, number, key) != without_nulls(rows)
            ):
                found.append(f"{self._tried[number].mode}: {self._tried[number].alter}")
        return found

    def read_again(self, capture: Session) -> list[str]:
        """Of the cases whose rows are not read again, those in which they were."""
        keeping = [number for number, case in enumerate(self._tried) if case.keeps and number not in self.refused]
        return [self._tried[number].clauses[0].text for number in keeping if capture.read(number) != ROWS]


KEPT = {entry.name for entry in keeping_clauses.KEEPING}


def until_equal(tables: Tables, capture: Session) -> None:
    capture.until(lambda c: (1,) in c.rows(len(tables.bound()) - 1), 180)
    try:
        capture.until(lambda c: not tables.differences(c), 60)
    except AssertionError:
        assert tables.differences(capture) == [], capture.last_words()
        raise


def live(database: Database, tables: Tables) -> Session:
    with session(database.config(), tables.bound(), command=COMMAND) as capture:
        capture.until(Session.done, 180)
        tables.alter()
        until_equal(tables, capture)
    return capture


def stopped(database: Database, tables: Tables) -> Session:
    with session(database.config(), tables.bound(), stop=True, command=COMMAND) as first:
        assert first.finish(180) == 0, first.last_words()
    tables.alter()
    with session(database.config(), tables.bound(), first.state, command=COMMAND) as second:
        second.documents[:0] = first.documents
        until_equal(tables, second)
    return second


WAYS = {"live": live, "stopped": stopped}


RUNS = [
    ("mariadb", "live", "FULL"),
    ("mariadb", "stopped", "NO_LOG"),
    ("mysql", "stopped", "FULL"),
    ("mysql", "live", "NO_LOG"),
]
"""Product, what the capture is meanwhile, and whether the log names columns, in ``make test``."""


EVERY = list(product(("mariadb", "mysql"), WAYS, ("FULL", "NO_LOG")))
"""In ``make soak``. Each tries all clauses alone, and a part of the pairs."""


@pytest.mark.drawn(1)
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("server", "way", "metadata"), sample(EVERY, RUNS))
def test_tables_end_equal(request: pytest.FixtureRequest, server: str, way: str, metadata: str) -> None:
    database: Database = request.getfixturevalue(f"{server}_database")
    with global_setting(database, "binlog_row_metadata", f"'{metadata}'"):
        for tried in cases(sample(EVERY, RUNS).index((server, way, metadata))):
            tables = Tables(database, tried)
            capture = WAYS[way](database, tables)
            assert tables.read_again(capture) == []
            run(database, f"DROP DATABASE {database.name}", f"CREATE DATABASE {database.name}")


def test_every_entry_of_the_list_has_clauses() -> None:
    """And each of these clauses is what the entry has."""
    entries = {entry.name: entry for entry in keeping_clauses.KEEPING}
    assert {clause.keeps for clause in KEEPING} == entries.keys()
    for clause in CLAUSES:
        found = alter(statement_tokens(f"TABLE t {clause.text.format(t='t')}".encode(), "d"))
        assert found is not None and (found[0].alteration.unknown is False or clause.keeps == ""), clause.text
