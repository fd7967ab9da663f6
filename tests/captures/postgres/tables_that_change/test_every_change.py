"""Each row of the table in docs/postgres.md: the change before a backfill, in it, after it, and between sessions."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.captures.changes_page import markdown
from tests.captures.impatient import aside_of
from tests.captures.postgres.tables_that_change import test_values
from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept, made, since_emptied
from tests.captures.postgres.tables_that_change.kept_values import KeepsValues
from tests.captures.postgres.tables_that_change.scenes import SCENES, Scene
from tests.captures.session import Json, Session
from tests.captures.source_tables import prepare
from tidemark.captures.contract import causes
from tidemark.captures.contract.table_changes import Cause, Consequence, TableChange
from tidemark.captures.postgres.tables_that_change.table_changes import CHANGES, INCLUDED, PUT_BACK
from tidemark.testing.servers.postgres import Database

BY_CAPTURE_FILE = {
    INCLUDED: test_values.test_a_column_that_is_no_longer_excluded,
    PUT_BACK: test_values.test_a_table_that_is_taken_out_of_the_capture_and_put_back,
}


def test_the_page_shows_the_list() -> None:
    page = (Path(__file__).parents[4] / "docs" / "postgres.md").read_text()
    assert markdown(CHANGES) in page
    assert SCENES.keys() | BY_CAPTURE_FILE.keys() >= set(CHANGES)
    assert len({change.name for change in CHANGES}) == len(CHANGES)


def test_each_reread_has_a_way_to_avoid_it() -> None:
    reread = [change for change in CHANGES if Consequence.WARNED < change.consequence < Consequence.SET_ASIDE]
    shared = [cause for cause in vars(causes).values() if isinstance(cause, Cause)]
    assert len(reread) > 15 and len({cause.name for cause in shared}) == len(shared) > 10
    avoided = {each.name: each.avoid for each in reread} | {each.name: each.avoid for each in shared}
    assert [name for name, avoid in avoided.items() if not avoid.endswith(".")] == []
    # What has one name in both lists is one thing.
    names = {cause.name: cause for cause in shared}
    for change in reread:
        known = names.get(change.name)
        assert known is None or known.consequence is change.consequence, change.name


@contextmanager
def load(database: Database, scene: Scene) -> Iterator[None]:
    """Rows come and go, whatever else happens to the table."""
    over = threading.Event()
    statements = [
        "INSERT INTO t (id) VALUES ({})",
        "DELETE FROM t WHERE id = {} - 3",
        "UPDATE t SET id = id WHERE id = {} - 2",
    ]
    usable = statements if scene.key(0) else statements[:1]

    def write() -> None:
        with database.connect() as connection:
            number = 10_000
            while not over.wait(0.01):
                number += 1
                for statement in usable:
                    try:
                        connection.execute(statement.format(number))
                    except psycopg.Error:
                        continue  # The table is away, or the server refuses just that.

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join(timeout=60)


class Stage:
    """A scene's database and its captures, one session after another."""

    def __init__(self, database: Database, change: TableChange | KeepsValues, scene: Scene) -> None:
        self.database, self.change, self.scene = database, change, scene
        self.role = f"{database.name}_role"
        self.altered = 0

    def run(self, statements: list[str]) -> None:
        prepare(self.database, *(statement.replace("{role}", self.role) for statement in statements))

    def alter(self) -> None:
        self.run(self.scene.alter(self.altered))

    def mend(self) -> None:
        self.run(self.scene.mend(self.altered))
        self.altered += 1

    def alter_captured(self, capture: Session) -> None:
        """Where the table is set aside for it, that is waited for."""
        self.alter()
        if self.change.consequence is Consequence.SET_ASIDE:
            capture.until(lambda c: aside_of(c, "t") is not None, SECONDS)
            aside = aside_of(capture, "t")
            assert aside is not None and aside["code"] == self.change.code
        elif self.change.consequence is Consequence.WARNED:
            capture.until(lambda c: any(_code(line) == self.change.code for line in c.logs), SECONDS)
        self.mend()

    def until_equal(self, capture: Session) -> None:
        capture.until(lambda c: c.done() and aside_of(c, "t") is None and self._equal(c), SECONDS)

    def _equal(self, capture: Session) -> bool:
        with self.database.connect() as connection:
            found = connection.execute(
                "SELECT attname FROM pg_attribute"
                " WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
            ).fetchall()
        columns = [name for (name,) in found]
        key = self.scene.key(self.altered)
        if not all(document.keys() >= set(key) for _, document in since_emptied(capture)):
            return False  # They have the key that the table had.
        rows = kept(capture, key)
        if self.change.consequence is Consequence.NOTHING:
            # A document that lacks a column has NULL in it, and one that has another column is none the worse.
            rows = Counter(
                json.dumps({name: json.loads(row).get(name) for name in columns}, sort_keys=True) for row in rows
            )
        return rows == held(self.database, f"SELECT {', '.join(columns)} FROM t")


def _streams(database: Database) -> bool:
    with database.connect() as connection:
        query = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND active"
        return connection.execute(query).fetchone() == (1,)


def _code(line: Json) -> str:
    return str(line.get("fields", {}).get("code", ""))


@contextmanager
def staged(database: Database, change: TableChange | KeepsValues) -> Iterator[Stage]:
    scene = SCENES[change]
    if database.version < scene.least:
        pytest.skip(f"came with version {scene.least}")
    stage = Stage(database, change, scene)
    prepare(database, *scene.create)
    if scene.publication:
        prepare(database, f"CREATE PUBLICATION tidemark {scene.publication}")
    if not scene.role:
        yield stage
        return
    stage.run(["CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'", "GRANT SELECT ON t TO {role}"])
    try:
        yield stage
    finally:
        stage.run(["DROP OWNED BY {role}", "DROP ROLE {role}"])


@pytest.mark.drawn(6)
@pytest.mark.parametrize("change", list(SCENES), ids=lambda change: change.name)
def test_a_change(database: Database, change: TableChange | KeepsValues) -> None:
    with staged(database, change) as stage:
        config: Json = {**stage.scene.config, **({"user": stage.role, "password": "x"} if stage.scene.role else {})}
        slowly: Json = {"backfill": {"chunk_rows": 20, "max_rate": "400 rows/s"}}
        begun = made(database)
        with load(database, stage.scene):
            stage.alter()
            stage.mend()
            with capturing(database, begun, **config, **slowly) as capture:
                # What cannot be read is left alone until somebody asks for it: see docs/running.md.
                after = change.consequence is Consequence.WARNED
                capture.until(lambda c: c.done() if after else len(c.documents) >= 40, SECONDS)
                stage.alter_captured(capture)
                capture.until(Session.done, SECONDS)
        stage_end = capture.state
        with load(database, stage.scene):
            stage.alter()
            stage.mend()
        with capturing(database, stage_end, **config) as again:
            # An opening capture of one table ends when that table cannot be captured.
            again.until(lambda _: _streams(database), SECONDS)
            again.documents[:0] = capture.documents
            stage.until_equal(again)
            stage.alter_captured(again)
            stage.until_equal(again)
            if change.consequence is Consequence.READ_AGAIN:
                assert any(change.name in line.get("fields", {}).get("changes", ()) for line in again.logs)
