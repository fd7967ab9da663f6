"""A configured key whose columns may be NULL: it is refused where it is NULL, when the capture starts and later."""

from __future__ import annotations

import logging

import pytest

from tests.captures.session import Json, Session, apply, bindings, error_fields, session, unary
from tests.captures.source_tables import endpoint, prepare
from tidemark.captures.postgres.catalog.reading import read_tables
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import connect
from tidemark.captures.postgres.tables import unsupported_tables
from tidemark.testing.servers.postgres import Database

ORDERS = """
CREATE TABLE orders (region text, no int, what text, UNIQUE (region, no));
ALTER TABLE orders REPLICA IDENTITY FULL;
INSERT INTO orders SELECT 'r' || i % 7, i, 'x' FROM generate_series(1, 450) i
"""
NULLS = "INSERT INTO orders SELECT NULL, i, 'x' FROM generate_series(451, 500) i"
OTHERS = "CREATE TABLE others (id int PRIMARY KEY)"


def bound(scan: str | None = None) -> list[Json]:
    resource = {"key": ["region", "no"], **({} if scan is None else {"scan": scan})}
    return [*bindings("public.orders", **resource), *bindings("public.others")]


def aside(capture: Session) -> list[str]:
    return [one["aside"]["code"] for one in capture.state.get("bindings", {}).values() if "aside" in one]


@pytest.mark.parametrize("column", ["region", "no"])
def test_a_check_refuses_it(database: Database, column: str) -> None:
    prepare(database, ORDERS, OTHERS, f"UPDATE orders SET {column} = NULL WHERE no = 17")
    config = endpoint(database)
    one = {"validate": {"name": "test", "config": config, "bindings": bound()[:1]}}
    status, _, logs = unary(one)
    assert status == 1
    fields = error_fields(logs)
    assert fields["code"] == "TM-PG-022"
    assert f"the key column {column} is NULL" in logs[-1]["message"]


@pytest.mark.parametrize("scan", [None, "physical", "none"])
def test_a_capture_that_starts_sets_it_aside_until_it_is_right(database: Database, scan: str | None) -> None:
    prepare(database, ORDERS, NULLS, OTHERS, "INSERT INTO others VALUES (1)")
    config = endpoint(database)
    apply(config, bound(scan))
    with session(config, bound(scan)) as capture:
        capture.until(lambda c: aside(c) == ["TM-PG-022"] and c.rows(1) == {(1,): {"id": 1}})
        assert [binding for binding, _ in capture.documents] == [1]
        prepare(database, "UPDATE orders SET region = 'r9' WHERE region IS NULL")
        capture.until(lambda c: not aside(c))
        if scan != "none":
            capture.until(lambda c: c.done() and len(c.rows(0, ("region", "no"))) == 500)


def test_a_row_that_comes_later_sets_it_aside(database: Database) -> None:
    prepare(database, ORDERS, OTHERS)
    config = endpoint(database)
    apply(config, bound())
    with session(config, bound()) as capture:
        capture.until(lambda c: c.done() and len(c.rows(0, ("region", "no"))) == 450)
        prepare(
            database, "UPDATE orders SET what = 'NULL' WHERE no = 1", "UPDATE orders SET region = NULL WHERE no = 2"
        )
        capture.until(lambda c: aside(c) == ["TM-PG-022"])
        prepare(database, "INSERT INTO others VALUES (1)")
        capture.until(lambda c: c.rows(1) == {(1,): {"id": 1}})
        prepare(database, "DELETE FROM orders WHERE region IS NULL")
        capture.until(lambda c: not aside(c) and c.done() and len(c.rows(0, ("region", "no"))) == 449)


def test_what_cannot_be_told_in_time_is_warned_of(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(database, ORDERS)
    monkeypatch.setattr(unsupported_tables, "NULL_SECONDS", 1)
    with connect(parse_endpoint(endpoint(database))) as asking, database.connect(autocommit=False) as holder:
        (table,) = read_tables(asking, [("public", "orders")])
        holder.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        with caplog.at_level(logging.WARNING):
            assert list(unsupported_tables.null_key_failures(asking, table, ["region"])) == []
        assert "key column region has NULLs could not be told" in caplog.text
        holder.rollback()
        timeout = asking.execute("SHOW statement_timeout").fetchone()
    assert timeout == ("0",)
