"""What ``tidemark remove`` finds at a source, what it removes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from psycopg import sql

from tests.end_to_end.capture import Capture, Ended
from tests.operations.status import is_caught_up, status
from tests.operations.test_lag import slot_of
from tests.workload.tables import create_tables
from tidemark.captures.mysql.chunks.fence import create_watermark_table
from tidemark.demo.processes import TIDEMARK
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database as MariaDatabase
from tidemark.testing.servers.postgres import Database, drop_slot


def objects(ended: Ended) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ended.said.splitlines()[0])["objects"]
    return found


def names(database: Database) -> tuple[set[str], set[str]]:
    """The slots of a database, and its publications."""
    with database.connect() as connection:
        slots = connection.execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")
        publications = connection.execute("SELECT pubname FROM pg_publication")
        return {row[0] for row in slots}, {row[0] for row in publications}


def answered(capture: Capture, answer: str) -> str:
    """What the command says to somebody at a terminal who answers its question."""
    terminal, ours = os.openpty()
    try:
        os.write(terminal, f"{answer}\n".encode())
        command = [*TIDEMARK, "remove", str(capture.file)]
        return subprocess.run(command, stdin=ours, capture_output=True, check=False, text=True, timeout=180).stdout
    finally:
        os.close(terminal)
        os.close(ours)


def captured(folder: Path, database: Database, **config: Any) -> Capture:
    """A capture of one table that has caught up."""
    create_tables(database, 20)
    capture = Capture(folder, database, {**slot_of(database), **config}, tables=["public.accounts"])
    capture.catch_up()
    return capture


def test_a_slot_and_its_publication(database: Database, tmp_path: Path) -> None:
    capture = captured(tmp_path, database)
    slot = str(capture.config["slot"])
    assert names(database) == ({slot}, {slot})
    unasked = capture.run("remove")
    assert unasked.status == 2 and "TM-CFG-011" in unasked.said
    assert f"replication slot {slot}, which retains" in unasked.said and f'DROP PUBLICATION "{slot}";' in unasked.said
    assert [(one["kept"], one["removed"]) for one in objects(capture.run("remove", "--json"))] == [("", False)] * 2
    assert names(database) == ({slot}, {slot})
    assert "Remove this?" in answered(capture, "n")
    assert names(database) == ({slot}, {slot})
    assert f"removed publication {slot}" in answered(capture, "y")
    assert names(database) == (set(), set())
    again = capture.run("remove", "--yes")
    assert again.status == 0 and "There is nothing at its source" in again.said
    after = capture.run("capture", "--until-caught-up")
    assert after.status == 1 and "TM-PG-0" in after.said


def test_a_capture_that_runs(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database), tables=["public.accounts"])
    with capture.start() as running:
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        here = capture.run("remove", "--yes")
        assert here.status == 1 and "TM-LOG-006" in here.said
        os.kill(running.pid, signal.SIGSTOP)
        try:
            halted = capture.run("remove", "--yes")
            assert halted.status == 1 and "TM-LOG-006" in halted.said
            told = status(capture)
            assert told.report["state"] == "not answering" and told.report["retained"]["bytes"] is not None
            assert told.report["needs"] == ["not answering"], "its own stream keeps nobody from the slot"
        finally:
            os.kill(running.pid, signal.SIGCONT)
        capture.write()
        capture.file.write_text(capture.file.read_text().replace(str(capture.log), str(tmp_path / "other.log")))
        # The log of a capture on another machine is not seen from here: the server knows who reads the slot.
        there = capture.run("remove", "--yes")
        assert there.status == 3 and "TM-PG-014" in there.said
    slot = str(capture.config["slot"])
    assert names(database) == ({slot}, {slot})
    drop_slot(database, slot)


def test_what_may_be_of_others_stays(database: Database, tmp_path: Path) -> None:
    capture = captured(tmp_path, database, publication="shared publication")
    slot = str(capture.config["slot"])
    comment = sql.SQL('COMMENT ON PUBLICATION "shared publication" IS {}')
    with database.connect() as connection:
        owned = f"tidemark: slot {slot} is read by capture {json.dumps('another')} into log 1"
        connection.execute(comment.format(owned))
    listed = objects(capture.run("remove", "--json", "--yes"))
    assert [one["kept"] for one in listed] == [
        "it is capture 'another' that reads it",
        "its name is not the slot's, so it may be of others too",
    ]
    assert not any(one["removed"] for one in listed)
    capture.config["create"] = False
    capture.write()
    assert all("create: false" in one["kept"] for one in objects(capture.run("remove", "--json", "--yes")))
    capture.config["create"] = True
    capture.write()
    with database.connect() as connection:
        connection.execute(comment.format(""))
    listed = objects(capture.run("remove", "--json", "--yes"))
    assert [one["removed"] for one in listed] == [True, False], "the connector's state has the slot"
    assert names(database) == (set(), {"shared publication"})


def test_what_the_server_refuses(database: Database, tmp_path: Path) -> None:
    capture = captured(tmp_path, database)
    slot = str(capture.config["slot"])
    with database.connect() as connection:
        for statement in (
            f"CREATE ROLE \"{slot}_reader\" LOGIN REPLICATION PASSWORD 'reads only'",
            f'GRANT CONNECT ON DATABASE "{database.name}" TO "{slot}_reader"',
        ):
            connection.execute(statement.encode())
    try:
        capture.config |= {"user": f"{slot}_reader", "password": "reads only"}
        capture.write()
        refused = capture.run("remove", "--yes")
        assert refused.status == 1 and "TM-PG-008" in refused.said and f"removing publication {slot}" in refused.said
        assert f"removed replication slot {slot}" in refused.said, "one refusal does not stop the rest"
        assert names(database) == (set(), {slot})
    finally:
        with database.connect() as connection:
            connection.execute(f'DROP OWNED BY "{slot}_reader"'.encode())
            connection.execute(f'DROP ROLE "{slot}_reader"'.encode())


def test_a_watermark_table(mariadb_database: MariaDatabase, tmp_path: Path) -> None:
    create_tables(mariadb_database, 20)
    name = mariadb_database.name
    capture = Capture(tmp_path, mariadb_database, {"watermark_table": f"{name}.marks"}, tables=[f"{name}.accounts"])
    assert objects(capture.run("remove", "--json")) == []
    with mariadb_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE marks (id INT PRIMARY KEY, price DECIMAL(9, 2))")
        (other,) = objects(capture.run("remove", "--json", "--yes"))
        assert other["kept"] == "its columns are not those of a watermark table"
        cursor.execute("DROP TABLE marks")
        cursor.execute(create_watermark_table((name, "marks")))
        (made,) = objects(capture.run("remove", "--json", "--yes"))
        assert made["removed"] and made["statement"] == f"DROP TABLE `{name}`.`marks`"
        assert cursor.execute("SHOW TABLES LIKE 'marks'") == 0


def test_a_connector_that_does_not_tell(database: Database, tmp_path: Path) -> None:
    connector = tmp_path / "foreign.py"
    connector.write_text(
        "import json, sys\n"
        "request = json.loads(sys.stdin.readline())\n"
        "assert 'validate' in request, 'it would take apply for a request to make something'\n"
        "print(json.dumps({'validated': {'bindings': []}}))\n"
    )
    capture = Capture(tmp_path, database, connector={"command": ["python", str(connector)]})
    told = capture.run("remove", "--yes")
    assert told.status == 1 and "TM-RUN-021" in told.said
