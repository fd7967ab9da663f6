"""The connector's configuration: what it takes, and what it says about what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.captures.postgres.server.config import EndpointConfig, parse_endpoint
from tidemark.protocol.errors import SourceError

LEAST = {"host": "db", "database": "shop", "user": "cdc"}


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (1, 1),
        (5_000_000_000, 5_000_000_000),
        ("123B", 123),
        ("64kB", 64_000),
        ("512 MB", 512_000_000),
        (" 10GiB ", 10 << 30),
        ("1.5TB", 1_500_000_000_000),
        (None, None),
    ],
)
def test_sizes(given: Any, size: int | None) -> None:
    assert parse_endpoint({**LEAST, "max_retained_wal": given}).max_retained_wal == size


@pytest.mark.parametrize("given", ["10", "GB", "10Gb", "10gb", "10GB/s", 0, -1, "0MB", [], 1.5])
def test_what_is_no_size(given: Any) -> None:
    with pytest.raises(SourceError, match=r"TM-PG-023: config: max_retained_wal"):
        parse_endpoint({**LEAST, "max_retained_wal": given})


def test_the_schema_says_what_is_taken() -> None:
    properties = EndpointConfig.model_json_schema()["properties"]
    assert [option["type"] for option in properties["max_retained_wal"]["anyOf"]] == ["integer", "string", "null"]
    assert properties["on_lost_position"]["enum"] == ["fail", "backfill"]
    assert properties["password"]["secret"] is True
