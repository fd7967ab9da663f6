"""Places in buckets of a server of S3's protocol."""

from __future__ import annotations

import pytest

from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.object_store import S3Server


@pytest.fixture
def bucket(s3: S3Server) -> StorePlace:
    """A new bucket."""
    return StorePlace(f"s3://{s3.bucket()}", s3.settings)
