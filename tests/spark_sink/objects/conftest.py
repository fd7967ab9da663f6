"""A server of S3's protocol, and places in buckets of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.object_store import S3Server, s3_server
from tidemark.protocol.capture_file.store_entry import StoreEntry
from tidemark.spark_sink.tables.store_place import StorePlace


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> StorePlace:
    """A new bucket."""
    return StorePlace(f"s3://{s3.bucket()}", StoreEntry.model_validate(s3.entry).settings(Path()))
