"""The script of ``tidemark check --fix-sql``: what it runs, and what it leaves to a person."""

from __future__ import annotations

import json

from tests.runtime.capture_folder import CaptureFolder
from tests.runtime.commands.test_commands import SESSION
from tests.runtime.commands.test_plan import ANSWER
from tidemark.protocol.logs import OPTIONAL_SQL
from tidemark.runtime.diagnosis.fix_sql import Fix, OptionalPart, script

GRANT = 'GRANT SELECT ON "a;b" TO "c";'


def _run(remedy: str, what: str = "TM-X-001: it lacks") -> list[str]:
    """The lines of the script that are no comments."""
    lines = script([Fix(what, remedy)], []).splitlines()
    return [line for line in lines if not line.startswith("-- ")]


def test_what_is_run() -> None:
    assert _run(f"Run: {GRANT} {GRANT} and restart the server.") == [GRANT, GRANT]
    assert _run(f"Run, as the tables' owner: {GRANT} Or leave the table out.") == [GRANT]
    assert script([Fix("TM-X-001: it lacks", f"Run, as a superuser: {GRANT} Then wait.")], []) == (
        f"-- TM-X-001: it lacks\n-- Run, as a superuser:\n{GRANT}\n-- Then wait.\n"
    )


def test_what_is_left_to_a_person() -> None:
    for remedy in (
        "",
        "Add a primary key.",
        f"Leave the table out, or run: {GRANT}",
        "Run: SELECT pg_drop_replication_slot('a');",
        "Run: SELECT pg_terminate_backend(7);",
        "Run: DROP USER ''@'h';",
        f"Run: {GRANT} DROP USER ''@'h';",
    ):
        assert _run(remedy) == [], remedy


def test_no_name_becomes_a_statement() -> None:
    evil = "t\nGRANT ALL ON x TO evil;\r\u2028DROP TABLE x;"
    assert _run(f"Rename {evil}", f"TM-X-001: {evil}") == []
    assert _run(f"Run: {GRANT} Then rename {evil}", evil) == [GRANT]
    assert _run(f"Look at {evil}. Run: {GRANT}") == []


def test_optional_parts_follow() -> None:
    assert script([], []) == "-- Nothing is missing that a statement would fix.\n"
    assert script([], [OptionalPart("a\nb", "-- It is good.\nCREATE x;\n")]).endswith(
        "\n\n-- Optional: a\n-- b\n-- It is good.\nCREATE x;\n"
    )


def test_the_command_prints_the_script_only(folder: CaptureFolder) -> None:
    optional = {
        "level": "info",
        "message": "there is no x",
        "eventType": OPTIONAL_SQL,
        "fields": {"sql": "-- It is good.\nCREATE x;"},
    }
    lacking = {
        "level": "warning",
        "message": "no right",
        "fields": {"code": "TM-PRO-003", "remedy": f"Run: {GRANT}"},
    }
    folder.script(SESSION, validate=[*({"stderr": json.dumps(each)} for each in (optional, lacking)), ANSWER])
    done = folder.run("check", "capture.yaml", "--fix-sql", environment={"LOG_LEVEL": "error"})
    expected = f"-- TM-PRO-003: no right\n-- Run:\n{GRANT}\n\n-- Optional: there is no x\n-- It is good.\nCREATE x;\n"
    assert (done.returncode, done.stdout) == (0, expected)
    report = json.loads(folder.run("check", "capture.yaml", "--fix-sql", "--json").stdout)
    assert report["ok"] and report["sql"] == expected
    assert "ok    there is no x\n" in folder.run("check", "capture.yaml").stdout
