"""What the source retains for a capture is told, also while the capture does not run, and so is the capture file."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.capture import Capture
from tests.operations.status import is_caught_up, report, status
from tests.operations.test_lag import slot_of
from tests.workload.tables import Database, create_tables, source_of
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database as MariaDatabase
from tidemark.testing.servers.postgres import Database as PostgresDatabase
from tidemark.testing.servers.postgres import drop_slot, free_slot, fresh_database, own_server
from tidemark.testing.tcp_proxy import proxied


def write_log(database: PostgresDatabase, rows: int) -> None:
    """About a kilobyte of log a row, in a table that is not captured."""
    with database.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS filler_of_the_log (text text)")
        connection.execute(
            "INSERT INTO filler_of_the_log SELECT repeat(md5(n::text), 32) FROM generate_series(1, %s) AS n", [rows]
        )


def test_the_slot_of_a_capture_that_runs_and_of_one_that_is_stopped(database: PostgresDatabase, tmp_path: Path) -> None:
    create_tables(database, 20)
    slot = slot_of(database)["slot"]
    capture = Capture(tmp_path, database, {"slot": slot}, tables=["public.accounts"])
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        running = status(capture)
        assert f"of log for slot {slot} (reserved, active), without a limit" in running.text
    write_log(database, 5000)
    stopped = status(capture)
    assert stopped.exit_status == (3, 3)
    assert stopped.report["retained"]["bytes"] > 5_000_000
    assert stopped.report["retained"]["by"] == f"for slot {slot} (reserved, inactive)"
    assert f"MB of log for slot {slot} (reserved, inactive), without a limit" in stopped.text
    drop_slot(database, slot)
    lost = status(capture)
    assert lost.exit_status == (1, 1)
    assert [failure["code"] for failure in lost.report["retained"]["failures"]] == ["TM-PG-015"]
    assert f"slot {slot}, which does not exist" in lost.text and "what to do: " in lost.text


def test_the_limit_of_a_slot_and_when_it_is_reached(tmp_path: Path) -> None:
    settings = {"max_slot_wal_keep_size": "200MB"}
    with own_server(settings) as server, fresh_database(server, "limited") as database:
        create_tables(database, 20)
        slot = slot_of(database)["slot"]
        capture = Capture(tmp_path, database, {"slot": slot}, tables=["public.accounts"])
        with capture.start():
            wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        write_log(database, 5000)
        told = status(capture)
        retained = told.report["retained"]
        assert retained["limit"] > retained["bytes"] > 5_000_000
        assert retained["seconds_left"] > 0
        assert "; its limit is 2" in told.text and "MB, at this rate in " in told.text
        free_slot(database, slot)


def test_the_binary_logs_of_a_capture_that_is_stopped(mariadb_database: MariaDatabase, tmp_path: Path) -> None:
    create_tables(mariadb_database, 20)
    capture = Capture(tmp_path, mariadb_database)
    capture.catch_up()
    before = status(capture)
    assert before.exit_status == (0, 0)
    with source_of(mariadb_database).connect(autocommit=True) as connection:
        connection.cursor().execute("UPDATE accounts SET name = repeat('x', 200)")
    after = status(capture)
    assert after.report["retained"]["bytes"] > before.report["retained"]["bytes"]
    assert "of log for " not in after.text and "of log in binary logs from " in after.text


def test_a_source_that_is_away_while_the_capture_is_stopped(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 20)
    config = source_of(each_database).config()
    with proxied(str(config["host"]), int(config["port"])) as proxy:
        capture = Capture(tmp_path, each_database, {**slot_of(each_database), "host": "127.0.0.1", "port": proxy.port})
        capture.catch_up()
    told = status(capture)
    assert told.report["state"] == "caught up" and told.report["retained"]["bytes"] is None
    assert "source cannot be asked what it retains: TM-" in told.text


def test_a_mistake_in_the_file_of_a_capture_that_runs(database: PostgresDatabase, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database))
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        good = capture.file.read_text()
        for bad, code in (("capture: [", "TM-CFG-001"), (good.replace('"log"', '"lgo"'), "TM-CFG-002")):
            capture.file.write_text(bad)
            told = status(capture)
            assert (told.report["state"], told.report["caught_up"]) == ("running", True)
            assert told.report["file_error"]["code"] == code
            assert told.exit_status == (1, 1) and f"file not in use: {code}" in told.text
        capture.file.unlink()
        told = status(capture)
        assert (told.report["state"], told.report["file_error"]["code"]) == ("running", "TM-CFG-001")
        capture.file.write_text(good)
        wait_until(lambda: status(capture).exit_status == (0, 0), 60, "all is well")
        # The connector, which finds this one, says soon after that all is well with what it captures.
        capture.file.write_text(good.replace('"public.*"', '"public.*", "public.nothing"'))
        wait_until(lambda: report(capture)["file_error"], 60, "it is told")
        heard = report(capture)["progress"]["status_time"]
        wait_until(lambda: report(capture)["progress"]["status_time"] > heard, 60, "the connector says that it is well")
        told = status(capture)
        assert told.exit_status == (1, 1) and "TM-CFG-004: tables: there is no table public.nothing" in told.text
        capture.file.write_text(good)
        wait_until(lambda: status(capture).exit_status == (0, 0), 60, "all is well")
    capture.file.write_text("capture: [")
    assert status(capture).exit_status == (3, 3)
    (tmp_path / ".capture.yaml.log").unlink()
    assert status(capture).exit_status == (2, 2)
    assert report(capture) == {}
