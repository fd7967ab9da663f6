"""Bad input to the commands: a short error with a code and what to do, the right exit status, nothing lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture, Ended
from tests.house.error_codes import CODES
from tests.warm_jvm import SHARED
from tests.workload.tables import create_tables
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import COMMITS, HEADER
from tidemark.testing.servers.postgres import Database


@pytest.fixture
def capture(database: Database, tmp_path: Path) -> Capture:
    create_tables(database, 20)
    return Capture(tmp_path, database, {"slot": database.name}, tables=["public.accounts"])


def fails(ended: Ended, code: str, *words: str, status: int = 1) -> None:
    """The command ended with this status, the code, what to do, these words, and no traceback."""
    assert ended.status == status, ended.said
    assert code in CODES
    assert code in ended.said
    assert "Traceback" not in ended.said
    assert len(ended.said) < 4000
    for word in words:
        assert re.search(word, ended.said), f"{word!r} is not in:\n{ended.said}"


@pytest.mark.parametrize("command", ["capture", "check", "discover"])
def test_wrong_host(capture: Capture, command: str) -> None:
    capture.config["host"] = "host.invalid"
    capture.write()
    fails(capture.run(command), "TM-PG-001", r"host\.invalid", status=3)


def test_wrong_port(capture: Capture) -> None:
    capture.config["port"] = 1
    capture.write()
    fails(capture.run("capture"), "TM-PG-001", r"\b1\b", status=3)


@pytest.mark.parametrize("command", ["capture", "check", "discover"])
def test_wrong_password(capture: Capture, command: str) -> None:
    capture.config["password"] = "not-the-password"
    capture.write()
    ended = capture.run(command)
    fails(ended, "TM-PG-002")
    assert "not-the-password" not in ended.said


def test_missing_database(capture: Capture) -> None:
    capture.config["database"] = "no such database"
    capture.write()
    fails(capture.run("capture"), "TM-PG-003", "no such database")


def test_missing_table(capture: Capture) -> None:
    capture.tables = ["public.accounts", "public.acounts"]
    capture.write()
    fails(capture.run("capture"), "TM-CFG-004", r"public\.acounts", r"public\.accounts", status=2)


def test_no_permission(capture: Capture) -> None:
    role = f"{capture.database.config()['database']}_nobody"
    with capture.database.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'nobody'")
        try:
            capture.config |= {"user": role, "password": "nobody"}
            capture.write()
            ended = capture.run("capture")
            assert ended.status == 1, ended.said
            assert "Traceback" not in ended.said
            assert "TM-PG-006" in ended.said, ended.said
            assert re.search(r"ALTER ROLE .* REPLICATION", ended.said), ended.said
            assert re.search(r"GRANT SELECT ON .*accounts", ended.said), ended.said
        finally:
            connection.execute(f"DROP ROLE {role}")


def test_capture_file_with_a_typo(capture: Capture) -> None:
    capture.entries = {"comit": {"interval": "1s"}}
    capture.write()
    fails(capture.run("capture"), "TM-CFG-002", "comit", "did you mean commit", status=2)


def test_no_capture_file(capture: Capture) -> None:
    capture.file.unlink()
    fails(capture.run("capture"), "TM-CFG-001", r"capture\.yaml", status=2)


def test_connector_option_with_a_typo(capture: Capture) -> None:
    capture.config["publicaton"] = "tidemark"
    capture.write()
    wrong = r"line \d+: connector\.config\.publicaton: unknown key \(did you mean publication\?\)"
    fails(capture.run("capture"), "TM-CFG-002", wrong, status=2)
    del capture.config["publicaton"]
    capture.config |= {"port": 70_000, "backfill": {"raeders": 2}, "sslmode": "none"}
    capture.tables = [{"table": "public.*", "exlude": ["ssn"]}, {"table": "public.t", "scan": "snapshot"}]
    capture.write()
    said = capture.run("check")
    options = (r"config\.port: .*at most 65535", r"raeders: .*mean readers", r"sslmode: .*one of disable")
    of_tables = (r"line \d+: tables\.0\.exlude: .*mean exclude", r"tables\.1\.scan: .*one of key, physical, none")
    for words in (*options, *of_tables):
        fails(said, "TM-CFG-002", r"5 mistakes", words)


def test_log_directory_of_another_capture(capture: Capture) -> None:
    capture.catch_up()
    before = contents(capture.log)
    capture.entries = {"capture": "another"}
    capture.write()
    fails(capture.run("capture"), "TM-LOG-005", "another", r"\btest\b")
    assert contents(capture.log) == before


def test_log_directory_with_other_files(capture: Capture) -> None:
    capture.log.mkdir()
    (capture.log / "precious").write_text("data")
    ended = capture.run("capture", "--until-caught-up")
    assert "Traceback" not in ended.said
    assert (capture.log / "precious").read_text() == "data"


@pytest.mark.parametrize("what", ["newest commit", "header"])
def test_corrupt_commit(capture: Capture, what: str) -> None:
    capture.catch_up()
    path = capture.log / HEADER
    if what == "newest commit":
        path = max((capture.log / COMMITS).glob("0*.json"))
    path.write_bytes(path.read_bytes()[:-20])
    before = contents(capture.log)
    fails(capture.run("capture"), "TM-LOG-002", re.escape(path.name))
    assert contents(capture.log) == before


def test_missing_commit(capture: Capture) -> None:
    capture.catch_up()
    path = min((capture.log / COMMITS).glob("0*.json"))
    path.unlink()
    fails(capture.run("capture"), "TM-LOG-004", re.escape(path.name))


@pytest.mark.slow
@pytest.mark.spark
@SHARED
def test_a_segment_that_was_cut(capture: Capture) -> None:
    """One that is missing: see tests/spark_sink."""
    capture.catch_up()
    [segment, *_] = [segment for commit in ChangeLog(capture.log).commits() for segment in commit.segments]
    path = capture.log / segment.path
    path.write_bytes(path.read_bytes()[: segment.size // 2])
    fails(capture.materialize(), "TM-LOG-009", re.escape(path.name))


def contents(root: Path) -> dict[str, bytes]:
    """Every file below ``root`` that says what was captured."""
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.suffix in (".json", ".parquet")}
