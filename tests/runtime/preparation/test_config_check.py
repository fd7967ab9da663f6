"""A connector's configuration against the schema that the connector gives for it."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.captures.mysql.terms.config import EndpointConfig as MysqlConfig
from tidemark.captures.postgres.server.config import EndpointConfig as PostgresConfig
from tidemark.runtime.preparation.config_check import mistakes

POSTGRES = PostgresConfig.model_json_schema()
MYSQL = MysqlConfig.model_json_schema()
GOOD: dict[str, Any] = {"host": "h", "database": "d", "user": "u"}


@pytest.mark.parametrize(
    ("schema", "config"),
    [
        (POSTGRES, GOOD),
        (POSTGRES, {**GOOD, "port": "5432", "password": "x", "create": "false"}),
        (POSTGRES, {**GOOD, "port": 5432.0, "max_retained_wal": "10GB", "backfill": {"readers": 4}}),
        (POSTGRES, {**GOOD, "max_retained_wal": 5, "sslrootcert": None}),
        (MYSQL, {"host": "h", "user": "u", "ssl_mode": "required"}),
        ({}, {"anything": [1]}),
        ({"type": "object"}, {"anything": [1]}),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, {"a": 1}),
        ({"properties": {"a": {"pattern": "(?<bad"}}}, {"a": "x"}),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1}),
    ],
)
def test_what_fits(schema: dict[str, Any], config: dict[str, Any]) -> None:
    assert not list(mistakes(schema, config))


@pytest.mark.parametrize(
    ("config", "place", "words"),
    [
        ({**GOOD, "publicaton": "x"}, ("publicaton",), "unknown key (did you mean publication?)"),
        ({"host": "h", "user": "u"}, ("database",), "missing"),
        ({**GOOD, "port": 0}, ("port",), "must be at least 1"),
        ({**GOOD, "create": 5}, ("create",), "must be of type boolean"),
        ({**GOOD, "port": "high"}, ("port",), "must be of type integer"),
        ({**GOOD, "host": True}, ("host",), "must be of type string"),
        ({**GOOD, "backfill": {"raeders": 1}}, ("backfill", "raeders"), "unknown key (did you mean readers?)"),
        ({**GOOD, "sslmode": "none"}, ("sslmode",), "must be one of disable, allow"),
        ({**GOOD, "slot": "My-Slot"}, ("slot",), "must match the pattern"),
        ({**GOOD, "backfill": [1]}, ("backfill",), "must be of type object"),
    ],
)
def test_what_does_not(config: dict[str, Any], place: tuple[str, ...], words: str) -> None:
    [(found, text)] = mistakes(POSTGRES, config)
    assert found == place
    assert words in text


def test_members_without_a_name_of_their_own() -> None:
    schema = {"additionalProperties": {"enum": ["stop", "text"]}}
    assert list(mistakes(schema, {"born": "text", "died": "never"})) == [(("died",), "must be one of stop, text")]


def test_no_value_is_named() -> None:
    config = {"host": ["hunter2"], "database": {"x": "hunter2"}, "port": -1, "user": "u", "sslmode": "hunter2"}
    found = list(mistakes(POSTGRES, config))
    assert len(found) == 4
    assert "hunter2" not in str(found)
