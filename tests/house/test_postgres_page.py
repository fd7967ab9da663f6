"""The SQL of docs/postgres.md, run by a real server, is enough for a capture."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.captures.session import begin
from tests.house.files import ROOT, blocks
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.captures.postgres.server.config import default_name, parse_endpoint
from tidemark.captures.postgres.server.session import connect_pq, execute_within
from tidemark.protocol.messages import Binding, CaptureSpec
from tidemark.testing.servers.postgres import Database

SET_UP_ROLE, PUBLISH, RETAINED, DROP = blocks(ROOT / "docs" / "postgres.md", "sql")


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """The role of the page. Roles belong to the whole server, so it is removed again."""
    with database.connect() as owner:
        owner.execute("CREATE TABLE public.orders (id int PRIMARY KEY, note text)")
        owner.execute(SET_UP_ROLE)
        try:
            yield "cdc"
        finally:
            owner.execute("DROP OWNED BY cdc")
            owner.execute("DROP ROLE cdc")


def test_the_set_up_is_all_that_a_capture_needs(database: Database, role: str) -> None:
    with database.connect() as owner:
        owner.execute(PUBLISH)
        config = {**database.config(), "user": role, "password": "choose one", "slot": database.name}
        config["publication"] = default_name("shop")  # as the page calls it
    resource = {"schema": "public", "table": "orders"}
    bindings = [Binding(resource_config=resource, resource_path=["public", "orders"], state_key="public%2Forders")]
    connector = PostgresDatabase()
    assert [found.recommended_name for found in connector.discover(config)] == ["public/orders"]
    assert connector.validate(config, bindings) == [["public", "orders"]]
    begin(connector, CaptureSpec(name="shop", config=config, bindings=bindings))
    with database.connect() as owner:
        slots = owner.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name = %s", [database.name])
        assert slots.fetchall() == [(database.name,)]


def test_a_slot_that_was_made_by_hand_can_be_let_go_along_with_a_failover(database: Database) -> None:
    page = (ROOT / "docs" / "postgres.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"`(ALTER_REPLICATION_SLOT [^`]+)`", page)
    if database.version < 17:
        pytest.skip("slots go along from version 17 on")
    slot = f"{database.name}_alter"
    with database.connect() as owner:
        owner.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        connection = connect_pq(parse_endpoint(database.config()), replication=True)
        try:
            execute_within(connection, command.replace("tidemark_shop", slot).encode(), 10)
        finally:
            connection.finish()
        failover = owner.execute("SELECT failover FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()
        assert failover == (True,)


def test_what_drops_a_capture_leaves_nothing(database: Database) -> None:
    slot = f"{database.name}_page"  # slots belong to the whole server, and somebody else's may be called that
    drop = DROP.replace("'tidemark_shop'", f"'{slot}'")
    assert drop.count(slot) == 2
    with database.connect() as owner:
        owner.execute(PUBLISH)
        owner.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        assert slot in [row[0] for row in owner.execute(RETAINED)]
        for statement in drop.removesuffix(";").split(";\n"):
            owner.execute(statement)
        assert owner.execute("SELECT FROM pg_publication").fetchall() == []
        assert owner.execute("SELECT FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchall() == []
