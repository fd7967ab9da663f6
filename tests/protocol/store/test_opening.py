"""Which store a place is, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.protocol.capture_file.store_entry import StoreEntry
from tidemark.protocol.errors import UsageError
from tidemark.protocol.store.local import DirectoryStore
from tidemark.protocol.store.objects import ObjectStore
from tidemark.protocol.store.opening import joined, opened
from tidemark.protocol.store.settings import StoreSettings

HTTP = StoreSettings(endpoint="http://127.0.0.1:9", region="x")


def test_a_path_is_a_directory(tmp_path: Path) -> None:
    assert opened(tmp_path).directory == opened(f"file://{tmp_path}").directory == tmp_path
    assert isinstance(opened("a/b"), DirectoryStore)


@pytest.mark.parametrize("place", ["s3://bucket", "s3://bucket/a/b", "s3://bucket/a/b/", "gs://bucket/a"])
def test_a_url_is_a_bucket(place: str) -> None:
    store = opened(place)
    assert isinstance(store, ObjectStore) and store.directory is None
    assert store.where("x") == joined(place, "x") == f"{place.rstrip('/')}/x"


@pytest.mark.parametrize(
    ("place", "settings", "told"),
    [
        ("s3://", None, "s3:// is not a bucket and a path in it alone"),
        ("s3:///path", None, "s3:///path is not a bucket"),
        ("s3://bucket/a?versionId=1", None, "s3://bucket/a is not a bucket"),
        ("s3://key:hidden@bucket/a", None, "s3://bucket/a is not a bucket"),
        ("ftp://bucket/a", None, "ftp://bucket/a cannot be opened"),
        ("s3://bucket/a", HTTP, "the endpoint of s3://bucket/a begins with http://"),
    ],
)
def test_a_place_that_is_wrong(place: str, settings: StoreSettings | None, told: str) -> None:
    with pytest.raises(UsageError, match=f"TM-CFG-009: {told.replace('?', '[?]')}") as caught:
        opened(place, settings)
    assert "hidden" not in str(caught.value)


def test_secrets_come_from_the_environment_and_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "key")
    (tmp_path / "secret").write_text("hidden\n")
    entry = {"access_key_id": {"env": "SOME_KEY"}, "secret_access_key": {"file": "secret"}, "region": "eu"}
    settings = StoreEntry.model_validate(entry).settings(tmp_path)
    assert settings == StoreSettings(region="eu", access_key_id="key", secret_access_key="hidden")
    assert "hidden" not in repr(settings)


def test_every_secret_that_is_missing_is_named(tmp_path: Path) -> None:
    entry = {"access_key_id": {"env": "NO_SUCH_VARIABLE"}, "secret_access_key": {"file": "no-file"}}
    with pytest.raises(UsageError, match=r"(?s)TM-CFG-003.*NO_SUCH_VARIABLE.*no-file"):
        StoreEntry.model_validate(entry).settings(tmp_path)
