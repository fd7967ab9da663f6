"""Every database has the common options, behind its own."""

from __future__ import annotations

import pytest

from tidemark.captures.mysql.terms.config import EndpointConfig as MysqlConfig
from tidemark.captures.postgres.server.config import EndpointConfig as PostgresConfig
from tidemark.captures.server.endpoint_config import Endpoint
from tidemark.protocol.environment import RUNTIME


@pytest.mark.parametrize("config", [MysqlConfig, PostgresConfig])
def test_forms_show_first_where_the_server_is(config: type[Endpoint]) -> None:
    names = list(config.model_json_schema()["properties"])
    common = list(Endpoint.model_fields)
    assert names[:2] == ["host", "port"]
    assert names[-len(common) :] == common


def test_options_for_the_engine_come_from_the_whole_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint.model_validate(
        {"on_lost_position": "backfill", "truncate": "backfill", "backfill": {"readers": 3, "max_rate": "5 rows"}}
    )
    assert (endpoint.backfill.readers, endpoint.backfill.max_rate) == (3, (5.0, True))
    assert (endpoint.on_lost_position, endpoint.announced) == ("backfill", True)
    monkeypatch.setenv(RUNTIME, "1")
    assert Endpoint(truncate="ignore").announced
    monkeypatch.delenv(RUNTIME)
    assert not Endpoint(truncate="ignore").announced
