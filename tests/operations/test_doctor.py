"""What ``tidemark doctor`` says of captures that are well, and of those that are not."""

from __future__ import annotations

import json
import secrets
import shutil
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import DATABASES
from tests.conformance.engine import Engine
from tests.end_to_end.capture import Capture, own_process
from tests.operations.status import is_caught_up, report
from tests.operations.test_lag import slot_of
from tests.operations.test_tables import capture_of
from tests.warm_jvm import SHARED
from tests.workload.tables import create_tables
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import HEADER
from tidemark.runtime.diagnosis import change_log
from tidemark.runtime.diagnosis.findings import Findings
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database as MariaDatabase
from tidemark.testing.servers.postgres import Database, drop_slot

Finding = dict[str, Any]

PARTS = ["machine", "file", "log", "capture", "source", "spark"]

TYPES = {
    "postgres": """CREATE TABLE kinds (id int PRIMARY KEY, a numeric(10, 2), b numeric, c jsonb, d int[], e timestamptz,
        f timestamp, g date, h time, i bytea, j uuid, k bool, l float8, m text, secret text, o text, p bigint,
        q char(4), r interval, s inet, t numeric(40, 3))""",
    "mysql": """CREATE TABLE kinds (id int PRIMARY KEY, a decimal(10, 2), b double, c json, d enum('x', 'y'),
        e timestamp NULL, f datetime(6), g date, h time(3), i varbinary(9), j uuid, k bool, l float, m text,
        secret text, o text, p bigint unsigned, q char(4), r bit(9), s set('x', 'y'), t decimal(60, 3), u year)""",
}


def findings(capture: Capture, status: int) -> list[Finding]:
    """What it finds, where it ends with this status."""
    ended = capture.run("doctor", "--json")
    assert ended.status == status, ended.said
    found: list[Finding] = json.loads(ended.said.splitlines()[0])["findings"]
    return found


def wrong(found: list[Finding]) -> dict[str, Finding]:
    """By code, what is not well."""
    return {one["code"] or one["message"]: one for one in found if one["level"] != "ok"}


@pytest.fixture(params=["postgres", "mariadb"])
def engine(request: pytest.FixtureRequest) -> Engine:
    kind, database = DATABASES[request.param]
    made: Engine = kind(request.getfixturevalue(database))
    return made


def test_of_a_capture_that_is_well(engine: Engine, tmp_path: Path) -> None:
    """Columns of all kinds, with options, are in the log as they are at the source."""
    engine.execute(TYPES[engine.module.rpartition(".")[2]], "INSERT INTO kinds (id) VALUES (1)")
    table = {"table": f"{engine.schema}.kinds", "exclude": ["o"], "hash": ["secret"], "text": ["a"]}
    capture = Capture(tmp_path, engine.database, {**engine.config(), "hash_salt": "s" * 20}, tables=[table])
    before = findings(capture, 0)
    (of_log,) = (one["message"] for one in before if one["part"] == "log")
    assert of_log == f"the change log will be created at {capture.log}"
    capture.catch_up()
    found = findings(capture, 0)
    assert wrong(found) == {}
    assert list(dict.fromkeys(one["part"] for one in found)) == PARTS
    assert "the source's tables have the columns that the log knows" in [one["message"] for one in found]
    assert capture.run("doctor").said.splitlines()[-1] == "0 failures, 0 warnings"


def test_of_one_whose_source_has_changed(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    config = slot_of(database)
    capture = Capture(tmp_path, database, config, tables=["public.accounts"])
    capture.catch_up()
    with database.connect() as connection:
        connection.execute("ALTER TABLE accounts ADD COLUMN remark text")
    drop_slot(database, config["slot"])
    found = wrong(findings(capture, 1))
    assert found.keys() == {"TM-PG-015", "TM-RUN-023"}
    assert found["TM-RUN-023"]["message"].endswith(
        "accounts has changed since the capture last ran: column remark is new"
    )
    said = capture.run("doctor").said
    assert f"  FAIL  TM-PG-015: {found['TM-PG-015']['message']}\n        what to do: Set `on_lost_position" in said
    assert said.splitlines()[-1] == "1 failures, 1 warnings"


def test_of_one_that_was_killed_with_a_table_set_aside(engine: Engine, tmp_path: Path) -> None:
    engine.users(20)
    engine.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    capture = capture_of(engine, tmp_path, 0)
    with capture.start() as running:
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        engine.execute("DROP TABLE orders")
        wait_until(lambda: report(capture)["halted"], 60, "the table is away")
        aside = {code: one["message"] for code, one in wrong(findings(capture, 1)).items()}
        assert any(f"{engine.schema}.orders" in message for message in aside.values()), aside
        running.kill()
    found = wrong(findings(capture, 1))
    assert "was killed" in found["TM-RUN-024"]["message"]
    assert all(one["remedy"] for one in found.values() if one["code"])
    # What the capture says of itself cannot be told with this: the source is looked at all the same.
    (waiting := capture.file.with_name(".capture.yaml.tidemark") / "control").mkdir(exist_ok=True)
    (waiting / f"{9:020d}.json").touch()
    everything = findings(capture, 1)
    assert "TM-LOG-002" in wrong(everything) and "source" in {one["part"] for one in everything}


def test_of_one_whose_log_is_gone(database: Database, tmp_path: Path) -> None:
    """The source is looked at all the same, and so is the address of its metrics."""
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database), tables=["public.accounts"])
    capture.catch_up()
    shutil.rmtree(capture.log)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        capture.entries = {"metrics": {"listen": f"127.0.0.1:{taken.getsockname()[1]}"}}
        capture.write()
        found = findings(capture, 1)
    assert wrong(found).keys() == {"TM-LOG-013", "TM-CFG-010"}
    assert "source" in {one["part"] for one in found}


def test_of_a_server_with_another_clock(mariadb_database: MariaDatabase, tmp_path: Path) -> None:
    """The server sets the time of each session of an ordinary user."""
    user, password = f"u{secrets.token_hex(4)}", secrets.token_hex(8)
    with mariadb_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY)")
        cursor.execute(f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'")
        cursor.execute(f"GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT, INSERT, CREATE ON *.* TO {user}@'%'")
        cursor.execute("SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() - 120'")
        try:
            config = {"user": user, "password": password}
            capture = Capture(tmp_path, mariadb_database, config, tables=[f"{mariadb_database.name}.t"])
            found = wrong(findings(capture, 0))
        finally:
            cursor.execute("SET GLOBAL init_connect = ''")
            cursor.execute(f"DROP USER {user}@'%'")
    assert found["TM-MY-057"]["message"].startswith("the server's clock is 1")
    assert "s behind this machine's" in found["TM-MY-057"]["message"]


def test_of_a_log_that_will_fill_its_disk(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database))
    capture.catch_up()

    def said() -> list[str]:
        log, findings = ChangeLog(capture.log), Findings()
        change_log.look_at_growth(log, log.summary(), findings)
        return [one.code for one in findings.all if one.level == "warning"]

    monkeypatch.setattr(change_log, "SOON", timedelta(days=10_000_000))
    assert said() == []  # It is of today.
    header = json.loads((capture.log / HEADER).read_text())
    header["created"] = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    (capture.log / HEADER).write_text(json.dumps(header))
    assert said() == ["TM-RUN-022"]
    monkeypatch.undo()
    assert said() == []


@SHARED
@pytest.mark.drawn(4, of="a JVM of its own")
def test_of_tables_in_spark(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(
        tmp_path, database, slot_of(database), connector=own_process(database), tables=["public.accounts"]
    )
    capture.catch_up()
    assert capture.materialize().status == 0
    (kept,) = (one for one in findings(capture, 0) if one["part"] == "spark")
    assert kept["message"].startswith("public.accounts current is 0 ") and kept["level"] == "ok"
    older = tmp_path / "older.log"
    shutil.copytree(capture.log, older)
    # Another log of the same id, with fewer events: restored from an older copy.
    commits = sorted((capture.log / "commits").glob("*.json"))
    for commit in commits[1:]:
        commit.unlink()
    for summary in (capture.log / "commits").glob("*summary*"):
        summary.unlink()
    assert "TM-RUN-027" in wrong(findings(capture, 1))
