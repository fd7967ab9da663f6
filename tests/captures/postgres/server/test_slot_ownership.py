"""Whose a replication slot is, and what it is called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.captures.source_tables import USERS, prepare
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.captures.postgres.server.config import EndpointConfig, default_name, with_names
from tidemark.captures.postgres.source import PostgresSource
from tidemark.protocol.environment import LOG_ID
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding
from tidemark.testing.servers.postgres import Database

BOUND = [Binding(resource_config={"schema": "public", "table": "users"}, state_key="public%2Fusers")]


def test_names() -> None:
    assert default_name("shop") == "tidemark_shop"
    assert default_name("") == "tidemark"
    for name in ("Shop", "my-shop", "my shop", "Läden", "x" * 100, "x" * 101):
        assert re.fullmatch(r"tidemark_[a-z0-9_]{1,54}", default_name(name))
    several = ["my_shop", "my-shop", "my shop", "My_shop", "x" * 100, "x" * 101]
    assert len(set(map(default_name, several))) == len(several)


@pytest.mark.parametrize(
    ("config", "state", "slot", "publication"),
    [
        ({}, {}, "tidemark_shop", "tidemark_shop"),
        ({"slot": "mine"}, {}, "mine", "mine"),
        ({"publication": "pub"}, {}, "tidemark_shop", "pub"),
        ({}, {"source": {"slot": "tidemark"}}, "tidemark", "tidemark"),
        ({}, {"source": {"slot": "old", "publication": "pub"}}, "old", "pub"),
        ({"slot": "mine"}, {"source": {"slot": "old", "publication": "pub"}}, "mine", "pub"),
    ],
)
def test_a_capture_that_exists_keeps_its_names(
    config: dict[str, Any], state: dict[str, Any], slot: str, publication: str
) -> None:
    found = with_names(config, "shop", state)
    assert (found["slot"], found["publication"]) == (slot, publication)


def test_no_form_fills_in_a_name_that_all_captures_would_share() -> None:
    properties = EndpointConfig.model_json_schema()["properties"]
    assert "default" not in properties["slot"]
    assert "default" not in properties["publication"]


@contextmanager
def opened(
    database: Database, capture: str, log: str, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> Iterator[PostgresSource]:
    monkeypatch.setenv(LOG_ID, log)
    postgres = PostgresDatabase()
    slot = {"slot": f"{database.name}_slot"[-60:]}
    config = postgres.with_names({**database.config(), **slot, **more}, capture, {})
    with closing(postgres.open(config, BOUND)) as source:
        assert isinstance(source, PostgresSource)
        yield source


def begin(source: PostgresSource) -> tuple[str, dict[str, Any]]:
    """A capture's cursor and identity after its first session."""
    position = source.start_position(None, None)
    source.open_log(position).close()
    return source.format_position(position), source.identity()


def test_another_capture_does_not_get_the_slot(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(database, USERS)
    with opened(database, "shop", "log-1", monkeypatch) as source:
        cursor, identity = begin(source)
    with opened(database, "other", "log-2", monkeypatch) as source:
        with pytest.raises(SourceError) as caught:
            source.start_position(None, None)
        assert caught.value.code == "TM-PG-040"
        assert "'shop'" in caught.value.message
        with pytest.raises(SourceError) as caught:
            source.start_position(cursor, identity)
        assert caught.value.code == "TM-PG-040"
        with pytest.raises(SourceError) as caught:
            source.start_over()
        assert caught.value.code == "TM-PG-040"
    with opened(database, "shop", "log-1", monkeypatch) as source:
        assert source.format_position(source.start_position(cursor, identity)) == cursor


def test_a_log_that_is_lost_is_no_first_start(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(database, USERS)
    with opened(database, "shop", "log-1", monkeypatch) as source:
        begin(source)
    with opened(database, "shop", "log-2", monkeypatch) as source, pytest.raises(SourceError) as caught:
        source.start_position(None, None)
    assert caught.value.code == "TM-PG-041"
    found = re.search(r"(SELECT pg_drop_replication_slot\('\w+'\));", caught.value.remedy)
    assert found is not None
    prepare(database, found[1])
    with opened(database, "shop", "log-2", monkeypatch) as source:
        begin(source)


def test_a_start_that_was_killed_before_its_first_commit_is_begun_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(database, USERS)
    for _ in range(2):
        with opened(database, "shop", "log-1", monkeypatch) as source:
            begin(source)


def test_a_slot_of_which_nobody_knows_whose_it_is(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = f"{database.name}_slot"[-60:]
    prepare(database, USERS, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    prepare(database, f"CREATE PUBLICATION {slot} FOR TABLE users")
    with opened(database, "shop", "log-1", monkeypatch) as source, pytest.raises(SourceError) as caught:
        source.start_position(None, None)
    assert caught.value.code == "TM-PG-041"
    with opened(database, "shop", "log-1", monkeypatch, create=False) as source:
        begin(source)


def test_two_that_begin_at_once_are_told_apart(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(database, USERS)
    with database.connect() as other:
        slot = f"{database.name}_slot"[-60:]
        other.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [f"tidemark slot {slot}"])
        with opened(database, "shop", "log-1", monkeypatch) as source, pytest.raises(SourceError) as caught:
            source.start_position(None, None)
    assert caught.value.code == "TM-PG-014"


def test_what_stood_in_the_comment_stays(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(
        database, USERS, "CREATE PUBLICATION p FOR TABLE users", "COMMENT ON PUBLICATION p IS 'by the DBA\nsince May'"
    )
    with opened(database, "shop", "log-1", monkeypatch, publication="p") as source:
        begin(source)
    with opened(database, "two", "log-2", monkeypatch, publication="p", slot=f"{database.name}_two"[-60:]) as source:
        begin(source)
    with database.connect() as session:
        row = session.execute("SELECT obj_description(oid, 'pg_publication') FROM pg_publication").fetchone()
    assert row is not None
    lines = row[0].splitlines()
    assert lines[:2] == ["by the DBA", "since May"]
    assert [re.findall(r'capture "(\w+)"', line) for line in lines[2:]] == [["shop"], ["two"]]
