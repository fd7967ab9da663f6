"""``tidemark verify``: what the log has is compared with the source, while both are written to."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.end_to_end.capture import Capture, own_process
from tests.warm_jvm import SHARED
from tests.workload.tables import Database, create_tables, source_of
from tests.workload.writers import Workload
from tidemark.protocol.changelog import ChangeLog
from tidemark.runtime.changelog.events import segment_events
from tidemark.runtime.progress.verification_record import VerificationRecord
from tidemark.runtime.verification.comparison import OTHER_VERSION
from tidemark.testing.deadline import wait_until


def verified(capture: Capture, *options: str) -> tuple[int, dict[str, Any]]:
    ended = capture.run("verify", "--json", *options)
    line = next((line for line in ended.said.splitlines() if line.startswith('{"run"')), None)
    assert line is not None, ended.said
    return ended.status, json.loads(line)["tables"]


def named(found: dict[str, Any]) -> dict[str, str]:
    return {one["key"]: one["kind"] for one in found["keys"]}


def is_read(capture: Capture, *more: str) -> bool:
    if not (capture.log / "tidemark.json").exists():
        return False
    summary = ChangeLog(capture.log).summary()
    tables = source_of(capture.database).tables()
    newest = [summary.newest(table.replace(".", "/")) for table in (*tables, *more)]
    return all(one is not None and one.whole is not None for one in newest)


FORGETFUL = Path(__file__).with_name("forgetful_connector.py")

ROWS = int(os.environ.get("TIDEMARK_TEST_VERIFIED_ROWS", "20000"))
"""Among which some differ. A million took two minutes on two cores."""

CREATE = {
    "postgres": "CREATE TABLE planted (code text PRIMARY KEY, name text, amount numeric(12,2), at timestamptz, "
    "score double precision, doc json)",
    "mysql": "CREATE TABLE planted (code varchar(20) COLLATE utf8mb4_bin PRIMARY KEY, name varchar(40), "
    "amount decimal(12,2), at timestamp(6) NULL, score double, doc longtext)",
}

DIFFERENCES = [
    # What is done to the source, and what is found: by code.
    ("INSERT INTO planted VALUES ('M00000001', 'x', 1, NULL, 1, NULL)", {"M00000001": "missing"}),
    ("DELETE FROM planted WHERE code = 'K00000002'", {"K00000002": "too many"}),
    ("UPDATE planted SET name = 'another' WHERE code = 'K00000003'", {"K00000003": "different"}),
    ("UPDATE planted SET amount = amount + 0.01 WHERE code = 'K00000004'", {"K00000004": "different"}),
    ("UPDATE planted SET name = NULL WHERE code = 'K00000007'", {"K00000007": "different"}),
    ("UPDATE planted SET name = 'name 5 ' WHERE code = 'K00000005'", {"K00000005": "different"}),
    ("UPDATE planted SET at = at + interval '1' hour WHERE code = 'K00000006'", {"K00000006": "different"}),
    ("UPDATE planted SET score = {nan} WHERE code = 'K00000008'", {"K00000008": "different"}),
    ("UPDATE planted SET doc = '{{\"n\": 9.0}}' WHERE code = 'K00000009'", {"K00000009": "different"}),
    (
        "UPDATE planted SET code = 'k00000010' WHERE code = 'K00000010'",
        {"k00000010": "missing", "K00000010": "too many"},
    ),
]


def _row(n: int) -> tuple[Any, ...]:
    name = "" if n % 7 == 0 else f"name {n}"
    return f"K{n:08d}", name, n / 4, datetime(2026, 1, 1) + timedelta(seconds=n), n / 3, json.dumps({"n": n})


@pytest.mark.slow
@pytest.mark.drawn(1)
@SHARED
def test_it_names_the_rows_that_differ_and_no_others(each_database: Database, tmp_path: Path) -> None:
    source = source_of(each_database)
    kind = "postgres" if source.connector.endswith("postgres") else "mysql"
    forgotten = tmp_path / "forgotten"
    command = [sys.executable, str(FORGETFUL), source.connector, str(forgotten)]
    create_tables(each_database, 50)
    capture = Capture(tmp_path, each_database, connector={"command": command})
    table = f"{source.schema}.planted"
    found = {code: kind for _, differences in DIFFERENCES for code, kind in differences.items()}
    with closing(source.connect(autocommit=True)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(CREATE[kind])
        for start in range(1, ROWS + 1, 10_000):
            rows = [_row(n) for n in range(start, min(start + 10_000, ROWS + 1))]
            cursor.executemany("INSERT INTO planted VALUES (%s, %s, %s, %s, %s, %s)", rows)
        with Workload(each_database, writers=1, seed=5, rate=50) as workload, capture.start():
            wait_until(lambda: is_read(capture, table), 300, "all tables are read")
            forgotten.write_text("\n".join(found))
            for statement, _ in DIFFERENCES:
                cursor.execute(statement.format(nan="'NaN'" if kind == "postgres" else "score * (1 + 2.3e-16)"))
            for in_spark in (False, True):
                status, tables = verified(capture, "--table", table)
                planted = tables[table]
                assert status == 1
                assert named(planted) == found
                assert planted["compared"] == planted["rows"] == ROWS
                if in_spark:
                    assert named(planted["spark"]) == found
                    assert planted["spark"]["compared"] == planted["spark"]["rows"] == ROWS
                else:
                    assert planted["spark"] is None
                    kept = capture.materialize()
                    assert kept.status == 0, kept.said
            # Exactly these rows are read again; the connector still loses what else the log has of them.
            before = ChangeLog(capture.log).end()
            repaired = capture.run("verify", "--table", table, "--repair")
            assert repaired.status == 0, repaired.said
            assert f"{table}: {len(found)} rows were read again" in repaired.said
            assert {event["code"]: event["_op"] for event in logged(capture, table, before)} == {
                code: "d" if how == "too many" else "c" for code, how in found.items()
            }
            status, tables = verified(capture, "--table", table)
            assert (status, tables[table]["different"], tables[table]["spark"]["different"]) == (0, {}, {}), tables
            workload.stop()


def logged(capture: Capture, table: str, start: int) -> list[dict[str, Any]]:
    """The events of a table from an offset on."""
    log = ChangeLog(capture.log)
    segments = log.segments(table.replace(".", "/"), start, log.end())
    return [event for segment in segments for event in segment_events(log, segment)]


@pytest.mark.drawn(5, of="processes that are killed")
def test_a_repair_survives_a_kill_of_the_connector(database: Database, tmp_path: Path) -> None:
    forgotten, rows = tmp_path / "forgotten", 400
    command = [sys.executable, str(FORGETFUL), source_of(database).connector, str(forgotten)]
    config = {"backfill": {"max_rate": "200 rows"}, "hash_salt": "a salt"}
    # Events come as lines, which can be lost; a policy holds for rows that are read again, too.
    tables = [{"table": "public.planted", "text": ["name"], "hash": ["name"]}]
    capture = Capture(tmp_path, database, config, {"command": command}, tables)
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE planted (code text PRIMARY KEY, name text)")
        cursor.execute(f"INSERT INTO planted SELECT 'K' || n, 'name' FROM generate_series(1, {rows}) n")
        capture.catch_up()
        forgotten.write_text("\n".join(f"K{n}" for n in range(1, rows + 1)))
        cursor.execute("UPDATE planted SET name = 'another'; DELETE FROM planted WHERE code = 'K7'")
        with capture.start() as running:
            wait_until(lambda: json.loads(capture.run("status", "--json").said)["running"], 60, "it runs")
            before = ChangeLog(capture.log).end()
            with capture.start("verify", "--repair") as asked:
                wait_until(lambda: ChangeLog(capture.log).end() > before, 60, "rows come")
                os.kill(wait_until(lambda: capture.connector_of(running), 30, "a connector"), signal.SIGKILL)
                wait_until(lambda: not asked.running, 120, "the command ends")
            assert f"public.planted: {rows} rows were read again" in capture.output.read_text()
            assert ChangeLog(capture.log).end() >= before + rows
            status, found = verified(capture)
            assert (status, found["public.planted"]["different"]) == (0, {}), found


def test_it_is_done_in_the_background(database: Database, tmp_path: Path) -> None:
    forgotten = tmp_path / "forgotten"
    command = [sys.executable, str(FORGETFUL), source_of(database).connector, str(forgotten)]
    entries = {"verify": {"every": "1m", "share": "100%"}}
    capture = Capture(tmp_path, database, {}, {"command": command}, ["public.planted"], entries)
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE planted (code text PRIMARY KEY); INSERT INTO planted VALUES ('a'), ('b')")
        capture.catch_up()
        forgotten.write_text("b")
        cursor.execute("DELETE FROM planted WHERE code = 'b'")
        with capture.start():
            wait_until(lambda: "TM-RUN-030" in capture.output.read_text(), 60, "it tells what differs")
            assert "1 row of public.planted in the log differs from the source" in capture.output.read_text()
            status = capture.run("status")
            assert status.status == 1 and "rows of public.planted differ from the source" in status.said
            assert (capture.status_file.parent / "verification.json").exists()


@pytest.mark.slow
@SHARED
@pytest.mark.drawn(5, of="a JVM of its own")
def test_in_the_background_nothing_is_read_before_spark_can_be_reached(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"verify": {"every": "1d", "share": "100%"}}
    capture = Capture(tmp_path, database, tables=["public.planted"], entries=entries)
    with database.connect() as connection:
        connection.execute("CREATE TABLE planted (code text PRIMARY KEY); INSERT INTO planted VALUES ('a'), ('b')")
    capture.catch_up()
    assert capture.materialize().status == 0
    verified, lake = capture.log / "verify/public/planted/verified.json", {"warehouse": str(capture.lake)}
    capture.entries = {**entries, "spark": {**lake, "master": "spark://127.0.0.1:1"}}
    capture.write()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    def record() -> VerificationRecord:
        return VerificationRecord.of(capture.state)

    def once_more() -> VerificationRecord:
        """What is known after the next try, which is made due."""
        before = record().model_copy(update={"again": datetime.now(UTC) - timedelta(days=1)})
        before.save(capture.state)
        return wait_until(lambda: record() if record() != before else None, 60, "it is tried again")

    with capture.start():
        first = wait_until(lambda: record() if record().lacking else None, 90, "what is lacking is known")
        run = json.loads(verified.read_bytes())["run"]
        said = capture.run("status")
        assert "not verified: public.planted in Spark: TM-SPK-001: /nowhere/bin/java cannot be run; tried" in said.said
        assert (said.status, first.tries) == (0, 1)
        second = once_more()
        assert (second.ended, second.since, second.tries) == (first.ended, first.since, 2)
        assert json.loads(verified.read_bytes())["run"] == run, "the source was read once more"
        second.model_copy(update={"since": datetime.now(UTC) - timedelta(days=2)}).save(capture.state)
        assert "public.planted in Spark is not verified" in capture.run("status").said
        capture.entries = {**entries, "spark": lake}
        capture.write()
        assert once_more() == VerificationRecord(ended=first.ended)
        assert json.loads(verified.read_bytes())["different_in_spark"] == 0
        assert "not verified" not in capture.run("status").said


@pytest.mark.slow
def test_nothing_differs_under_load(database: Database, tmp_path: Path) -> None:
    capture = Capture(tmp_path, database)
    create_tables(database, 300)
    with Workload(database, writers=2, seed=5, rate=200) as workload, capture.start():
        wait_until(lambda: is_read(capture), 120, "all tables are read")
        for _ in range(3):
            status, tables = verified(capture)
            assert {name: found["keys"] for name, found in tables.items() if found["keys"]} == {}
            assert status == 0, {name: found["why"] for name, found in tables.items()}
        workload.stop()


@pytest.mark.slow
@pytest.mark.drawn(5, of="processes that are killed")
def test_a_verification_continues_after_kills(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 2_000)
    config = {"backfill": {"chunk_rows": 50}}
    capture = Capture(tmp_path, each_database, config, own_process(each_database))
    with Workload(each_database, writers=1, seed=7, rate=50) as workload, ExitStack() as stack:
        running = stack.enter_context(capture.start())
        wait_until(lambda: is_read(capture), 120, "all tables are read")
        asked = stack.enter_context(capture.start("verify", "--share", "20%"))
        for kill in ("connector", "runtime", "command"):
            before = len(chunks(capture))
            wait_until(partial(has_more_chunks, capture, before), 60, "a chunk is read")
            if kill == "connector":
                connector = partial(capture.connector_of, running)
                os.kill(wait_until(connector, 30, "a connector"), signal.SIGKILL)
            elif kill == "command":
                os.kill(asked.pid, signal.SIGKILL)
                asked.wait()
            else:
                os.kill(running.pid, signal.SIGKILL)
                running.wait()
                running = stack.enter_context(capture.start())
        again = capture.run("verify", "--json")
        workload.stop()
    assert "is under way, and continues" in again.said
    assert again.status == 0, again.said
    line = next(line for line in again.said.splitlines() if line.startswith('{"run"'))
    tables = json.loads(line)["tables"]
    assert json.loads(line)["run"] == 1
    assert {name for name, found in tables.items() if found["why"]} == set()
    assert min(found["rows"] for found in tables.values()) > 1_500
    assert chunks(capture) == []


def has_more_chunks(capture: Capture, count: int) -> bool:
    return len(chunks(capture)) > count


def chunks(capture: Capture) -> list[Path]:
    return sorted(capture.log.glob("verify/*/*/*/*.arrow"))


def test_what_cannot_be_compared_is_said(database: Database, tmp_path: Path) -> None:
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE keyed (id int PRIMARY KEY, name text); INSERT INTO keyed VALUES (1, 'a'), (2, 'b')"
        )
        cursor.execute("CREATE TABLE partly (id int PRIMARY KEY); INSERT INTO partly VALUES (1), (2)")
        cursor.execute("CREATE TABLE keyless (name text); ALTER TABLE keyless REPLICA IDENTITY FULL")
        cursor.execute("INSERT INTO keyless VALUES ('a')")
        tables = [
            "public.keyed",
            {"table": "public.keyless", "scan": "physical"},
            {"table": "public.partly", "where": "id > 1"},
        ]
        capture = Capture(tmp_path, database, tables=tables)
        capture.catch_up()
        stopped = capture.run("verify")
        assert stopped.status == 3 and "TM-RUN-029" in stopped.said, stopped.said
        with capture.start():
            wait_until(lambda: json.loads(capture.run("status", "--json").said)["running"], 60, "it runs")
            cursor.execute("UPDATE partly SET id = 10 WHERE id = 1")
            wait_until(lambda: not capture.differences({"public.keyed": ["id"]}), 60, "the log is read")
            whole = capture.run("verify")
            assert whole.status == 0, whole.said
            assert "public.keyed: 2 rows, 2 compared: equal" in whole.said
            assert "public.keyless: not compared: it has no key" in whole.said
            # Row 10 does not meet the condition, but the log has it: so what is too many is not known.
            assert "public.partly: 2 rows, 2 compared: equal" in whole.said, whole.said
            assert capture.run("verify", "--share", "0%").status == 2
            assert capture.run("verify", "--table", "public.kyed").status == 2
            said = json.loads(capture.run("status", "--json").said)
            assert {name: one["different"] for name, one in said["verified"].items()} == {
                "public.keyed": 0,
                "public.partly": 0,
            }
            assert "verified 2 tables" in capture.run("status").said
            capture.run("pause", "--table", "public.keyed")
            paused = capture.run("verify", "--table", "public.keyed")
            assert paused.status == 3 and "public.keyed: not compared: it is paused" in paused.said


def test_a_schema_may_have_a_dot_in_its_name(database: Database, tmp_path: Path) -> None:
    capture = Capture(tmp_path, database, tables=["odd.one.*"])
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute('CREATE SCHEMA "odd.one"; CREATE TABLE "odd.one".things (id int PRIMARY KEY)')
        cursor.execute('CREATE TABLE "odd.one".nothing (id int PRIMARY KEY); INSERT INTO "odd.one".things VALUES (1)')
        capture.catch_up()
        with capture.start():
            wait_until(lambda: json.loads(capture.run("status", "--json").said)["running"], 60, "it runs")
            said = capture.run("verify")
    assert said.status == 0, said.said
    assert "odd.one.things: 1 rows, 1 compared: equal" in said.said
    assert "odd.one.nothing: 0 rows, 0 compared: equal" in said.said


def _of_another_version(chunk: Path) -> None:
    with pa.ipc.open_file(pa.BufferReader(chunk.read_bytes())) as read:
        rows = read.read_all()
    said = {name: value for name, value in (rows.schema.metadata or {}).items() if name != b"digests"}
    rows = rows.replace_schema_metadata(said)
    with pa.ipc.new_file(str(chunk), rows.schema) as file:
        file.write_table(rows)


def test_a_table_that_cannot_be_compared_says_why_and_is_compared_later(database: Database, tmp_path: Path) -> None:
    config = {"backfill": {"chunk_rows": 10}}
    capture = Capture(tmp_path, database, config, tables=["public.*"])
    with database.connect() as connection, connection.cursor() as cursor:
        for table in ("emptied", "altered", "elsewhere"):
            cursor.execute(f"CREATE TABLE {table} AS SELECT n id, 'name ' || n name FROM generate_series(1, 1000) n")
            cursor.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
        capture.catch_up()
        with capture.start():
            wait_until(lambda: json.loads(capture.run("status", "--json").said)["running"], 60, "it runs")
            with capture.start("verify", "--share", "30%") as asked:
                wait_until(lambda: len(chunks(capture)) > 3, 60, "rows are read")
                wait_until(lambda: any("elsewhere" in str(chunk) for chunk in chunks(capture)), 60, "of each table")
                _of_another_version(next(chunk for chunk in chunks(capture) if "elsewhere" in str(chunk)))
                cursor.execute("TRUNCATE emptied")
                cursor.execute("ALTER TABLE altered ADD COLUMN more int")
                cursor.execute("UPDATE altered SET more = id WHERE id > 990")
                wait_until(lambda: not asked.running, 120, "it ends")
            said = capture.output.read_text()
            assert "public.emptied: not compared: it was emptied meanwhile" in said, said[-2000:]
            assert "public.altered: not compared: its columns changed meanwhile" in said, said[-2000:]
            assert f"public.elsewhere: not compared: {OTHER_VERSION}" in said, said[-2000:]
            status, tables = verified(capture)
            assert status == 0, {name: found["why"] for name, found in tables.items()}
            assert tables["public.emptied"]["rows"] == 0
            assert tables["public.altered"]["compared"] == tables["public.elsewhere"]["compared"] == 1000
