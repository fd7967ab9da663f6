"""The unary requests, and what is wrong said at once, in a code, a sentence and a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.session import error_fields
from tests.conformance.engine import Code, Engine


def test_spec_is_the_same_shape_everywhere(engine: Engine) -> None:
    status, messages, _ = engine.unary({"spec": {}})
    assert status == 0
    (message,) = messages
    spec = message["spec"]
    assert spec["protocol"] == 3032023
    assert {"host", "port", "user", "password", "backfill", "truncate"} <= spec["configSchema"]["properties"].keys()
    assert {"schema", "table", "key", "exclude"} <= spec["resourceConfigSchema"]["properties"].keys()
    assert spec["resourcePathPointers"] == ["/schema", "/table"]


def test_discover_validate_and_apply(engine: Engine) -> None:
    engine.users(1)
    engine.execute("CREATE TABLE notes (note varchar(50))")
    status, messages, _ = engine.unary({"discover": {"connectorType": "IMAGE", "config": engine.config()}})
    assert status == 0
    found = {b["recommendedName"]: b for b in messages[0]["discovered"]["bindings"]}
    users = found[f"{engine.schema}/users"]
    assert users["key"] == ["/id"]
    assert users["resourceConfig"] == {"schema": engine.schema, "table": "users"}
    assert "additionalProperties" not in users["documentSchema"]
    assert found[f"{engine.schema}/notes"]["isFallbackKey"]

    bound = engine.bindings("users")
    status, messages, logs = engine.unary({"validate": {"config": engine.config(), "bindings": bound}})
    assert (status, messages) == (0, [{"validated": {"bindings": [{"resourcePath": [engine.schema, "users"]}]}}]), logs
    capture = {"name": "test", "config": engine.config(), "bindings": bound}
    for _ in range(2):
        status, messages, logs = engine.unary({"apply": {"capture": capture, "version": "1"}})
        assert (status, messages) == (0, [{"applied": {"actionDescription": ""}}]), logs


def test_wrong_password_host_and_user(engine: Engine) -> None:
    config = engine.config()
    cases: list[tuple[dict[str, Any], Code]] = [
        ({"password": "secret-word"}, Code.LOGIN),
        ({"host": "127.0.0.1", "port": 1}, Code.UNREACHABLE),
        ({"user": "nobody_here"}, Code.LOGIN),
    ]
    for change, code in cases:
        status, messages, logs = engine.unary({"discover": {"config": {**config, **change}}})
        assert (status, messages) == (1, [])
        assert error_fields(logs)["code"] == engine.code(code)
        assert "secret-word" not in str(logs)
        assert not config["password"] or config["password"] not in str(logs)


@pytest.mark.parametrize("place", ["config", "resource"])
def test_configuration_errors_name_the_field_not_the_value(engine: Engine, place: str) -> None:
    engine.users(0)
    wrong = {"passwrod": "secret-word", "where" if place == "resource" else "backfill": 5}
    config = engine.config(**wrong) if place == "config" else engine.config()
    bound = engine.bindings("users", **wrong) if place == "resource" else engine.bindings("users")
    status, _, logs = engine.unary({"validate": {"config": config, "bindings": bound}})
    assert status == 1
    assert error_fields(logs)["code"] == engine.code(Code.CONFIG)
    assert all(name in logs[-1]["message"] for name in wrong)
    assert "secret-word" not in str(logs)


def test_every_unmet_prerequisite_is_said_at_once(engine: Engine) -> None:
    engine.execute('CREATE TABLE reserved (id int PRIMARY KEY, "_meta" int)')
    status, _, logs = engine.unary(
        {"validate": {"config": engine.config(), "bindings": engine.bindings("reserved", "nowhere")}}
    )
    assert status == 1
    assert error_fields(logs)["code"] == engine.code(Code.PREREQUISITES)
    codes = {line["fields"]["code"] for line in logs if line["level"] == "error"}
    assert {engine.code(Code.NO_TABLE), engine.code(Code.RESERVED_COLUMN)} <= codes


def test_a_table_that_is_bound_twice(engine: Engine) -> None:
    engine.users(0)
    bound = engine.bindings("users")
    twice = [*bound, {**bound[0], "stateKey": "other"}]
    status, _, logs = engine.unary({"validate": {"config": engine.config(), "bindings": twice}})
    assert (status, error_fields(logs)["code"]) == (1, engine.code(Code.CONFIG))


def test_the_password_is_nowhere(engine: Engine) -> None:
    engine.users(10)
    password = engine.config()["password"]
    if not password:
        pytest.skip("the server's account has no password")
    with engine.capture(engine.bindings("users"), stop=True) as capture:
        assert password not in str(capture.process.args)
        assert capture.finish() == 0
        assert password not in str(capture.logs) + str(capture.state) + str(capture.events)
    wrong = "another-secret-word"
    with engine.capture(engine.bindings("users"), capture.state, password=wrong) as refused:
        assert refused.finish() == 1
        assert wrong not in str(refused.logs)
