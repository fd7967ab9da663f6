"""The connector process as a person with a shell sees it: one line in, one line out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.session import bindings, error_fields, unary
from tidemark.testing.servers.postgres import Database


def test_spec_needs_no_server() -> None:
    status, messages, _ = unary({"spec": {}})
    assert status == 0
    assert len(messages) == 1
    spec = messages[0]["spec"]
    assert spec["protocol"] == 3032023
    assert {"host", "database", "user", "slot"} <= spec["configSchema"]["properties"].keys()
    assert {"schema", "table"} <= spec["resourceConfigSchema"]["properties"].keys()
    assert spec["resourcePathPointers"] == ["/schema", "/table"]


def test_every_unary_request(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("CREATE TABLE users (id int PRIMARY KEY, name text)")
        connection.execute("CREATE TABLE notes (text text)")
    config = database.config()
    status, messages, _ = unary({"discover": {"connectorType": "IMAGE", "config": config}})
    assert status == 0
    found = {b["recommendedName"]: b for b in messages[0]["discovered"]["bindings"]}
    assert found["public/users"]["key"] == ["/id"]
    assert "additionalProperties" not in found["public/users"]["documentSchema"]
    assert found["public/notes"]["disable"] and found["public/notes"]["isFallbackKey"]
    assert found["public/notes"]["key"] == [f"/_meta/source/loc/{part}" for part in range(4)]

    bound = bindings("public.users")
    status, messages, logs = unary({"validate": {"config": config, "bindings": bound}})
    assert (status, messages) == (0, [{"validated": {"bindings": [{"resourcePath": ["public", "users"]}]}}]), logs

    request = {"apply": {"capture": {"config": config, "bindings": bound}, "version": "1"}}
    status, messages, _ = unary(request)
    assert (status, messages) == (0, [{"applied": {"actionDescription": ""}}])


def test_no_newline_at_the_end_is_a_whole_request_all_the_same() -> None:
    status, messages, _ = unary('{"spec":{}}')
    assert status == 0
    assert "spec" in messages[0]


def test_nothing_on_stdin_is_nothing_to_do() -> None:
    assert unary(b"") == (0, [], [])


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello\n", "TM-PRO-001"),
        (b"\xff\xfe\n", "TM-PRO-001"),
        (b"[]\n", "TM-PRO-002"),
        (b'{"nonsense":{}}\n', "TM-PRO-002"),
        (b'{"spec":{},"discover":{}}\n', "TM-PRO-002"),
        (b'{"open":{}}\n', "TM-PRO-003"),
        (b'{"acknowledge":{"checkpoints":1}}\n', "TM-PRO-004"),
        (b'{"spec":{', "TM-PRO-006"),
    ],
)
def test_bad_input_is_a_short_error(line: bytes, code: str) -> None:
    status, messages, logs = unary(line)
    assert status == 1
    assert messages == []
    assert error_fields(logs)["code"] == code
    assert "Traceback" not in str(logs)


def test_a_role_that_may_not_log_in(database: Database) -> None:
    role = f"{database.name}_group"
    with database.connect() as admin:
        admin.execute(f"CREATE ROLE {role} NOLOGIN PASSWORD 'pass-word'")
        try:
            status, _, logs = unary(
                {"discover": {"config": {**database.config(), "user": role, "password": "pass-word"}}}
            )
            said = error_fields(logs)
            assert (status, said["code"]) == (1, "TM-PG-002")
            admin.execute(said["remedy"].partition(": ")[2])
            status, _, logs = unary(
                {"discover": {"config": {**database.config(), "user": role, "password": "pass-word"}}}
            )
            assert status == 0, logs
        finally:
            admin.execute(f"DROP ROLE {role}")


def test_wrong_host_password_and_database(database: Database) -> None:
    config = database.config()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"password": "secret-word"}, "TM-PG-002"),
        ({"host": "127.0.0.1", "port": 1}, "TM-PG-001"),
        ({"database": "no_such_database"}, "TM-PG-003"),
        ({"user": "nobody_here"}, "TM-PG-002"),
    ]
    for change, code in cases:
        status, _, logs = unary({"discover": {"config": {**config, **change}}})
        assert status == 1
        assert error_fields(logs)["code"] == code
        assert "secret-word" not in str(logs)
        assert not config["password"] or config["password"] not in str(logs)


def test_every_unmet_prerequisite_is_said_at_once(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("CREATE TABLE plain (a int)")
        connection.execute('CREATE TABLE reserved (id int PRIMARY KEY, "_meta" int)')
    bound = bindings("public.plain", "public.reserved", "public.nowhere")
    status, _, logs = unary({"validate": {"config": database.config(), "bindings": bound}})
    assert status == 1
    assert error_fields(logs)["code"] == "TM-PG-010"
    codes = {line["fields"]["code"] for line in logs if line["level"] == "error"}
    assert {"TM-PG-007", "TM-PG-017", "TM-PG-018"} <= codes


def test_a_role_without_privileges_gets_the_statements_it_needs(database: Database) -> None:
    role = f"{database.name}_reader"
    with database.connect() as connection:
        connection.execute("CREATE SCHEMA private; CREATE TABLE private.users (id int PRIMARY KEY)")
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        config = {**database.config(), "user": role, "password": "x"}
        status, _, logs = unary({"validate": {"config": config, "bindings": bindings("private.users")}})
        assert status == 1
        errors = {line["fields"]["code"]: line["fields"]["remedy"] for line in logs if line["level"] == "error"}
        assert f'ALTER ROLE "{role}" REPLICATION' in errors["TM-PG-006"]
        assert 'GRANT SELECT ON "private"."users"' in errors["TM-PG-008"]
        assert 'CREATE PUBLICATION "tidemark" FOR TABLE ONLY "private"."users"' in errors["TM-PG-011"]
    finally:
        with database.connect() as connection:
            connection.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("publication", "told"),
    [
        ("FOR TABLE users WITH (publish = 'insert, update')", "every kind of change"),
        ("FOR TABLE users WITH (publish = 'insert, update, delete')", "every kind of change"),
        ("FOR TABLE users (id)", "only some rows or columns of public.users"),
        ("FOR TABLE users WHERE (id > 5)", "only some rows or columns of public.users"),
        ("FOR TABLE parts", "not as public.parts"),
    ],
)
def test_a_publication_that_leaves_something_out_is_refused(database: Database, publication: str, told: str) -> None:
    if database.version < 15 and ("(id" in publication):
        pytest.skip("row filters and column lists came with version 15")
    with database.connect() as connection:
        connection.execute("CREATE TABLE users (id int PRIMARY KEY, name text)")
        connection.execute("CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        connection.execute(f"CREATE PUBLICATION tidemark {publication}")
    bound = bindings("public.parts" if "parts" in publication else "public.users")
    status, _, logs = unary({"validate": {"config": database.config(), "bindings": bound}})
    assert status == 1
    assert error_fields(logs)["code"] == "TM-PG-011"
    assert told in logs[-1]["message"]
    assert "ALTER PUBLICATION" in logs[-1]["fields"]["remedy"]
