"""A plan changes nothing at the source: not before the first session of a capture, and not after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from tests.captures import source_tables
from tests.captures.mysql.table_chunks import run
from tests.captures.session import COMMAND, Json, bindings, session, unary
from tidemark.protocol.answers.plan import BACKFILL_PLAN
from tidemark.protocol.environment import PLAN
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, Database, Product, no_source
from tidemark.testing.servers.postgres import fresh_database, own_server

MYSQL_COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


def plan(config: Json, bound: list[Json], command: Sequence[str]) -> Json:
    request = {"validate": {"name": "test", "config": config, "bindings": bound}}
    status, _, logs = unary(request, {PLAN: "1"}, command=command)
    assert status == 0, logs[-1]
    (found,) = [line["fields"] for line in logs if line.get("eventType") == BACKFILL_PLAN]
    tables: Json = found["tables"]
    return tables


@pytest.fixture(params=[(MARIADB, {}), (MYSQL, {}), (MYSQL, {"gtid_mode": "off", "enforce_gtid_consistency": "off"})])
def shop(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database of a server that nobody else writes to: of MySQL with GTIDs, and without."""
    product: Product = request.param[0]
    programs = product.installed()
    if programs is None:
        pytest.skip(no_source(product))
    with product.server(programs, settings=request.param[1]) as server:
        with closing(server.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("CREATE DATABASE shop")
        yield Database(server.host, server.port, server.user, server.password, product.name, server, "shop")


def written(shop: Database) -> list[Any]:
    """Where the log ends, and every table that there is."""
    with closing(shop.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SHOW BINARY LOGS")
        files = [row[:2] for row in cursor.fetchall()]
        cursor.execute("SHOW TABLES")
        return [files, list(cursor.fetchall())]


@pytest.mark.drawn(1)
def test_a_plan_writes_nothing_to_a_binlog_server(shop: Database) -> None:
    run(shop, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    run(shop, "CREATE TABLE keyless (v INT)", "INSERT INTO keyless VALUES (1)")
    bound = [*bindings("shop.t"), *bindings("shop.keyless", scan="snapshot")]
    config = {**shop.config(), "watermark_table": "shop.marks"}
    for _ in range(2):
        before = written(shop)
        tables = plan(config, bound, MYSQL_COMMAND)
        assert tables["shop.t"]["rows_per_second"] > 0
        assert written(shop) == before
        with session(config, bound, stop=True, command=MYSQL_COMMAND) as capture:
            assert capture.finish() == 0


@pytest.mark.heavy
def test_a_plan_writes_nothing_to_postgres() -> None:
    with own_server({"autovacuum": "off"}) as server, fresh_database(server, "planned") as database:
        source_tables.prepare(database, source_tables.USERS, source_tables.FILL)
        config = source_tables.endpoint(database)

        def transactions() -> Any:
            """The number that the next transaction gets that writes anything, a message among it."""
            with database.connect() as admin:
                return admin.execute(
                    "SELECT pg_snapshot_xmax(pg_current_snapshot())::text, array(SELECT slot_name FROM"
                    " pg_replication_slots), array(SELECT pubname FROM pg_publication)"
                ).fetchone()

        for _ in range(2):
            before = transactions()
            tables = plan(config, source_tables.BOUND, COMMAND)
            assert tables["public.users"]["rows_per_second"] > 0
            assert transactions() == before
            with session(config, source_tables.BOUND, stop=True) as capture:
                assert capture.finish() == 0
