"""Fixtures of the runtime's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.capture_folder import CaptureFolder
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.object_store import S3Server


@pytest.fixture
def folder(tmp_path: Path) -> CaptureFolder:
    """A capture with a scripted connector, in a path with a space."""
    path = tmp_path / "a shop"
    path.mkdir()
    return CaptureFolder(path)


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StorePlace:
    """Where a log can be, as Spark's processes are told it."""
    if request.param == "directory":
        return StorePlace.of(tmp_path / "log")
    server: S3Server = request.getfixturevalue("s3")
    return StorePlace(f"s3://{server.bucket()}/log", server.settings)


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same, as the runtime's processes are told it: a bucket by their environment."""
    if request.param == "directory":
        return DirectoryStore(tmp_path / "log")
    s3: S3Server = request.getfixturevalue("s3")
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    return s3.place()
