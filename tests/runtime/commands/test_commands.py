"""The ``tidemark`` command as a person runs it: output, exit status, errors without a traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, Step, error_line
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import COMMITS, HEADER
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.testing.deadline import wait_until

SESSION = [
    OPENED,
    {"rows": {"first": 1, "count": 3}},
    {"checkpoint": {"cursor": 3}},
    {"await": 1},
    {"rows": {"first": 4, "count": 2}},
    {"checkpoint": {"cursor": 5}},
]


def captured_in(folder: CaptureFolder) -> CaptureFolder:
    """Captures five events in two commits."""
    folder.script(SESSION)
    done = folder.run("capture", "capture.yaml", "--until-caught-up")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def captured_once(tmp_path_factory: pytest.TempPathFactory) -> CaptureFolder:
    """What each test has a copy of."""
    return captured_in(CaptureFolder(tmp_path_factory.mktemp("captured")))


@pytest.fixture
def captured(captured_once: CaptureFolder, folder: CaptureFolder) -> CaptureFolder:
    """A folder whose log holds five events in two commits."""
    shutil.copytree(captured_once.path, folder.path, dirs_exist_ok=True)
    folder.write_file()
    return folder


def failed(done: subprocess.CompletedProcess[str], status: int, code: str) -> str:
    """Asserts a short error with a code, what to do and where to read, and returns its message."""
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    if "capture" in done.args:  # Without a terminal its lines are JSON, the last one too.
        last = json.loads(done.stderr.splitlines()[-1])
        assert last["level"] == "error" and last["fields"]["remedy"]
        assert (last["fields"]["code"], last["fields"]["exit_status"]) == (code, status)
        assert last["fields"]["documentation"] == f"docs/errors.md#{code.lower()}"
        return str(last["message"])
    found = re.search(rf"^error {code}: (.*)\n(?:.*\n)*?  what to do: .+\n  see docs/errors.md#{code.lower()}$", done.stderr, re.M)  # fmt: skip  # noqa: E501
    assert found, done.stderr
    return found[1]


def test_capture_says_what_it_did(captured: CaptureFolder) -> None:
    again = captured.run("capture", "capture.yaml", "--until-caught-up", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["events"] == 5
    assert captured.ids() == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]  # this script takes no notice of the state
    assert captured.requests("open")[1]["state"] == {"cursor": 5}


def test_stderr_of_a_capture_is_json_lines_where_it_is_no_terminal(folder: CaptureFolder) -> None:
    folder.script([{"stderr": "plain words"}, *SESSION])
    done = folder.run("capture", "capture.yaml", "--until-caught-up")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["message"] for line in lines if line.get("fields", {}).get("from") == "connector"] == ["plain words"]
    progress = [line for line in lines if line.get("eventType") == "captureProgress"]
    assert progress[-1]["fields"]["events"] == 5
    assert done.stdout.startswith("caught up: 5 events of 1 tables")


def test_the_connector_gets_its_environment(folder: CaptureFolder) -> None:
    names = ("FLOW_RUNTIME_CODEC", "LOG_LEVEL", "TIDEMARK_STOP_WHEN_CAUGHT_UP")
    script = "; ".join([*(f"echo {name}=${name} >&2" for name in names), "exit 1"])
    folder.write_file(connector={"command": ["sh", "-c", script]})
    for arguments, stop in ((["--until-caught-up"], "1"), ([], "")):
        done = folder.run(
            "capture",
            "capture.yaml",
            *arguments,
            environment={"LOG_LEVEL": "debug", "TIDEMARK_STOP_WHEN_CAUGHT_UP": "x"},
        )
        for words in ("FLOW_RUNTIME_CODEC=json", "LOG_LEVEL=debug", f"TIDEMARK_STOP_WHEN_CAUGHT_UP={stop}"):
            assert words in done.stderr


def test_no_secret_is_ever_shown(folder: CaptureFolder) -> None:
    (folder.path / "key").write_text("secret-from-file")
    config = {"password": {"env": "SHOP_PASSWORD"}, "key": {"file": "key"}}
    folder.write_file(connector={"command": folder.command, "config": config})
    said = [
        {"stderr": f'{{"level":"info","message":"{text}"}}'} for text in ("a secret-from-env b", "secret-from-file")
    ]
    folder.script([*said, *SESSION])
    done = folder.run(
        "capture",
        "capture.yaml",
        "--until-caught-up",
        environment={"SHOP_PASSWORD": "secret-from-env", "LOG_LEVEL": "debug"},
    )
    assert done.returncode == 0, done.stderr
    assert folder.requests("open")[0]["capture"]["config"] == {"password": "secret-from-env", "key": "secret-from-file"}
    assert "a *** b" in done.stderr
    for path in (folder.path / "shop.log").rglob("*"):
        assert not path.is_file() or b"secret-from" not in path.read_bytes()
    assert "secret-from" not in done.stdout + done.stderr


def test_a_password_of_one_letter_mangles_no_message(folder: CaptureFolder) -> None:
    folder.write_file(connector={"command": folder.command, "config": {"password": "e"}})
    folder.script([{"stderr": '{"level":"warning","message":"there are three tables"}'}, *SESSION])
    done = folder.run("capture", "capture.yaml", "--until-caught-up")
    assert done.returncode == 0, done.stderr
    assert "there are three tables" in done.stderr
    assert "config.password is too short to be blanked" in done.stderr


@pytest.mark.parametrize(
    ("entries", "code", "status", "told"),
    [
        ({"tabels": []}, "TM-CFG-002", 2, "has 1 mistake"),
        ({"tables": ["public.tt"]}, "TM-CFG-004", 2, "there is no table public.tt (did you mean public.t?)"),
        ({"connector": {"command": ["no-such-program"]}}, "TM-RUN-001", 1, "there is no program 'no-such-program'"),
        ({"connector": {"command": ["x"], "config": {"a": {"env": "NOT_SET"}}}}, "TM-CFG-003", 2, "NOT_SET is not set"),
        ({"connector": {"command": ["true"]}}, "TM-RUN-004", 3, "without an answer to spec"),
        ({"connector": {"command": ["sh", "-c", "echo no"]}}, "TM-PRO-001", 1, "is not JSON"),
        ({"connector": {"command": ["sh", "-c", "echo boom >&2; exit 9"]}}, "TM-RUN-002", 3, "status 9: boom"),
        ({"log": "/proc/none/shop.log"}, "TM-LOG-008", 3, "/proc/none"),
    ],
)  # fmt: skip
def test_bad_input_is_a_short_error(
    folder: CaptureFolder, entries: dict[str, Any], code: str, status: int, told: str
) -> None:
    folder.script(SESSION)
    folder.write_file(**entries)
    assert told in failed(folder.run("capture", "capture.yaml"), status, code)


def test_a_log_of_another_capture(captured: CaptureFolder) -> None:
    captured.write_file(capture="other")
    failed(captured.run("capture", "capture.yaml"), 1, "TM-LOG-005")
    assert len(captured.requests("spec")) == 1


def test_two_captures_into_one_log(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"sleep": 1}])
    with folder.start("capture", "capture.yaml") as first:
        wait_until((folder.path / "asleep").exists, 30, "the first capture at work")
        failed(folder.run("capture", "capture.yaml"), 1, "TM-LOG-006")
        first.send_signal(signal.SIGINT)


def test_wrong_usage(folder: CaptureFolder) -> None:
    for arguments in (["captur"], ["capture"], ["capture", "capture.yaml", "--nonsense"], ["tail", "shop.log"]):
        done = folder.run(*arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
    failed(folder.run("capture", "none.yaml"), 2, "TM-CFG-001")


def test_an_unforeseen_error_is_told_without_a_traceback(captured: CaptureFolder) -> None:
    (captured.path / "sitecustomize.py").write_text("import json, orjson\norjson.dumps = None\n")
    environment = {"PYTHONPATH": f"{captured.path}{os.pathsep}{Path.cwd()}"}
    done = captured.run("status", "shop.log", "--json", environment=environment)
    told = json.loads(done.stderr)
    assert (told["fields"]["code"], "TypeError" in told["message"], done.returncode) == ("TM-RUN-014", True, 1)


def test_version_and_help(folder: CaptureFolder) -> None:
    assert re.fullmatch(r"tidemark \d+\.\d+\.\d+\n", folder.run("--version").stdout)
    told = folder.run("--help").stdout
    for command in ("demo", "init", "check", "discover", "capture", "materialize", "status", "tail", "log"):
        assert command in told
    assert "--until-caught-up" in folder.run("capture", "--help").stdout


# Looking.


def test_status(captured: CaptureFolder) -> None:
    for place in ("capture.yaml", "shop.log"):
        report = json.loads(captured.run("status", place, "--json").stdout)
        assert (report["capture"], report["commit"], report["events"]) == ("shop", 2, 5)
        assert report["tables"]["public.t"]["events"] == 5
    told = captured.run("status", "capture.yaml").stdout
    assert "capture  shop" in told
    assert re.search(r"public\.t +5 ", told)


def test_status_where_there_is_nothing(folder: CaptureFolder) -> None:
    failed(folder.run("status", "capture.yaml"), 3, "TM-LOG-001")
    failed(folder.run("status", "none"), 2, "TM-CFG-001")


def test_log_ls(captured: CaptureFolder) -> None:
    rows = [json.loads(line) for line in captured.run("log", "ls", "shop.log", "--json").stdout.splitlines()]
    assert [(row["commit"], row["first_offset"], row["events"], row["checkpoints"]) for row in rows] == [
        (0, 0, 0, 0),
        (1, 0, 3, 1),
        (2, 3, 2, 1),
    ]
    assert [row["uncompressed"] for row in rows] == [
        sum(segment.uncompressed for segment in commit.segments) for commit in ChangeLog(captured.log_path).commits()
    ]
    assert rows[1]["uncompressed"] > 0
    told = captured.run("log", "ls", "shop.log").stdout.splitlines()
    assert len(told) == 4
    assert told[2].endswith("public.t")


def test_log_export(captured: CaptureFolder) -> None:
    told = captured.run("log", "export", "capture.yaml", "--delta")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"public.t: 2 files, 2 new, 0 gone: {captured.log_path}/data/public/t\n"
    (row,) = map(
        json.loads, captured.run("log", "export", "shop.log", "--delta", "-t", "public.t", "--json").stdout.splitlines()
    )
    assert (row["table"], row["files"], row["added"], row["error"]) == ("public.t", 2, 0, None)
    unknown = captured.run("log", "export", "shop.log", "--delta", "--table", "public.tt")
    assert unknown.returncode == 2 and "TM-CFG-007" in unknown.stderr and "public.t" in unknown.stderr
    assert captured.run("log", "export", "shop.log").returncode == 2


def tailed(folder: CaptureFolder, *arguments: str) -> list[int]:
    done = folder.run("tail", "shop.log", "--table", "public.t", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["id"] for line in done.stdout.splitlines()]


def test_tail_by_offset_and_time(captured: CaptureFolder) -> None:
    second = ChangeLog(captured.log_path).commit(2).time
    assert tailed(captured) == [1, 2, 3, 4, 5]
    assert tailed(captured, "--limit", "2") == [1, 2]
    assert tailed(captured, "--from", "2") == [3, 4, 5]
    assert tailed(captured, "--from", second.isoformat()) == [4, 5]
    assert tailed(captured, "--from", second.replace(tzinfo=None).isoformat()) == [4, 5]
    assert tailed(captured, "--from", "2000-01-01") == [1, 2, 3, 4, 5]
    assert tailed(captured, "--from", "2900-01-01") == []
    assert tailed(captured, "--from", "latest") == []
    assert tailed(captured, "--from", "99") == []


def test_tail_prints_whole_events(captured: CaptureFolder) -> None:
    done = captured.run("tail", "shop.log", "-t", "public/t", "--limit", "1")
    event = json.loads(done.stdout)
    assert (event["id"], event["text"], event["_op"], event["_offset"], event["_loc"]) == (1, "xxxx", "c", 0, [1, 0, 0])


def test_tail_of_what_is_not_there(captured: CaptureFolder) -> None:
    message = failed(captured.run("tail", "shop.log", "-t", "public.tt"), 2, "TM-CFG-007")
    assert "did you mean public.t?" in message
    failed(captured.run("tail", "shop.log", "-t", "public.t", "--from", "yesterday"), 2, "TM-CFG-007")


def test_tail_follows_the_log(captured: CaptureFolder) -> None:
    with captured.start("tail", "shop.log", "-t", "public.t", "--follow", "--from", "3") as tail:
        assert tail.stdout is not None
        assert [json.loads(tail.stdout.readline())["id"] for _ in range(2)] == [4, 5]
        assert captured.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
        assert [json.loads(tail.stdout.readline())["id"] for _ in range(5)] == [1, 2, 3, 4, 5]
        tail.send_signal(signal.SIGINT)
        assert tail.wait(20) == 130
    assert captured.stderr == ""


def test_a_damaged_segment_is_named(captured: CaptureFolder) -> None:
    segment = captured.log.commit(1).segments[0].path
    (captured.log_path / segment).write_bytes(b"not parquet")
    assert segment in failed(captured.run("tail", "shop.log", "-t", "public.t"), 1, "TM-LOG-009")


# Before a capture.


def test_check_of_a_good_file(folder: CaptureFolder) -> None:
    folder.script(SESSION)
    done = folder.run("check", "capture.yaml")
    assert done.returncode == 0
    assert [line[:4] for line in done.stdout.splitlines()] == ["ok  "] * 5
    assert not folder.log_path.exists()
    assert folder.requests("apply") == []


def test_check_names_every_failure_at_once(folder: CaptureFolder) -> None:
    reasons = [
        error_line("wal_level is replica", code="TM-PG-004", policy="manual", remedy="ALTER SYSTEM"),
        error_line("no such slot", code="TM-PG-012", policy="manual", remedy="make one"),
    ]
    folder.script(SESSION, validate=[*reasons, {"exit": 1}])
    LogWriter.open(folder.log_path, "another").close()
    done = folder.run("check", "capture.yaml", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["ok"] is False
    bad = [finding for finding in report["findings"] if not finding["ok"]]
    assert [(one["code"], one["remedy"], one["policy"]) for one in bad[1:]] == [
        ("TM-PG-004", "ALTER SYSTEM", "manual"),
        ("TM-PG-012", "make one", "manual"),
    ]
    assert bad[0]["code"] == "TM-LOG-005"
    told = folder.run("check", "capture.yaml").stdout
    assert "FAIL  TM-PG-012: no such slot" in told
    assert "what to do: make one" in told


def test_discover_lists_what_is_chosen(folder: CaptureFolder) -> None:
    tables: list[Step] = [{"name": "public/t"}, {"name": "public/u"}, {"name": "public/v", "disable": True}]
    folder.script(SESSION, tables=tables)
    folder.write_file(tables=["public.t"])
    rows = [json.loads(line) for line in folder.run("discover", "capture.yaml", "--json").stdout.splitlines()]
    assert [(row["table"], row["captured"], row["disabled"]) for row in rows] == [
        ("public.t", True, False),
        ("public.u", False, False),
        ("public.v", False, True),
    ]
    assert rows[0]["columns"] == ["id", "text"]
    folder.write_file(tables=["public.w"])
    done = folder.run("discover", "capture.yaml")
    assert "public.u" in done.stdout
    failed(done, 2, "TM-CFG-004")


def test_init_writes_a_file_that_is_well_formed(folder: CaptureFolder) -> None:
    assert folder.run("init", "mysql.yaml", "--source", "mysql").returncode == 0
    done = folder.run("check", "mysql.yaml", environment={"MYSQL_PASSWORD": "x"})
    assert done.stdout.startswith("ok    the capture file is well-formed: capture shop")
    assert "tidemark.connectors.mysql answers" in done.stdout or "TM-MY-" in done.stdout, done.stdout
    assert folder.run("init", "new.yaml").returncode == 0
    failed(folder.run("init", "new.yaml"), 2, "TM-CFG-006")
    failed(folder.run("init", "none/new.yaml"), 1, "TM-RUN-013")
    done = folder.run("check", "new.yaml", environment={"PGPASSWORD": "x", "PGCONNECT_TIMEOUT": "2"})
    assert done.stdout.startswith("ok    the capture file is well-formed: capture shop")


def test_materialize_needs_a_spark_entry(folder: CaptureFolder) -> None:
    assert "has no spark entry" in failed(folder.run("materialize", "capture.yaml"), 2, "TM-CFG-002")


def test_check_tells_of_a_log_that_cannot_be_written_or_read(folder: CaptureFolder) -> None:
    captured_in(folder)  # Where it is noted that its log is.
    log = folder.log_path

    def fault() -> str:
        done = folder.run("check", "capture.yaml", "--json")
        code = next(str(finding["code"]) for finding in json.loads(done.stdout)["findings"] if not finding["ok"])
        assert done.returncode == (3 if code == "TM-LOG-008" else 1), done.stdout
        return code

    newest = max((log / COMMITS).glob("0*.json"))
    newest.write_bytes(newest.read_bytes()[:-20])
    assert fault() == "TM-LOG-002"
    (log / HEADER).unlink()
    assert fault() == "TM-LOG-004"
    shutil.rmtree(log)
    assert fault() == "TM-LOG-013"
    (folder.path / ".capture.yaml.log").unlink()
    log.write_text("a file")
    assert fault() == "TM-LOG-008"


# What others may see.


def test_a_connector_gets_no_variables_but_those_it_needs(folder: CaptureFolder) -> None:
    (folder.path / "key").write_text("from-a-file\n")
    named = {"GIVEN": {"env": "CHOSEN"}, "KEY": {"file": "key"}, "PLAIN": "words"}
    folder.write_file(connector={"command": ["sh", "-c", "env >&2; exit 1"], "environment": named})
    secrets = {"AWS_SECRET_ACCESS_KEY": "cloud-key", "PGPASSWORD": "pg-pass", "CHOSEN": "chosen-value"}
    told = folder.run("capture", "capture.yaml", environment={**secrets, "TZ": "Europe/Oslo"}).stderr
    assert "PLAIN=words" in told
    assert "TZ=Europe/Oslo" in told
    assert "GIVEN=***" in told, "its value is a secret"
    assert "KEY=***" in told
    for secret in (*secrets, *secrets.values(), "from-a-file"):
        assert secret not in told


@pytest.mark.parametrize(("readers", "others"), [("owner", 0o077), ("group", 0o027), ("all", 0o022)])
def test_who_may_read_the_log_and_the_status(folder: CaptureFolder, readers: str, others: int) -> None:
    folder.write_file(readable_by=readers)
    folder.script(SESSION)
    assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    assert folder.run("pause", "capture.yaml").returncode == 0
    paths = [each for top in (folder.log_path, folder.state_path) for each in (top, *top.rglob("*"))]
    assert {"status.json", "control", "data", "commits"} <= {path.name for path in paths}
    assert [path for path in paths if path.stat().st_mode & others] == []
    if readers == "all":
        assert all(path.stat().st_mode & 0o044 == 0o044 for path in paths if path.name != "LOCK")
