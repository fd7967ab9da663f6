from __future__ import annotations

import errno
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.tables.column_types import arrow_schema, conformed
from tidemark.spark_sink.tables.store_place import StorePlace


def test_a_path_is_absolute_and_a_url_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in ("a lake", tmp_path / "a lake", f"file://{tmp_path}/a lake"):
        place = StorePlace.of(given)
        assert (place.text, place.directory, place.shown) == (
            f"{tmp_path}/a lake",
            tmp_path / "a lake",
            place.directory,
        )
    place = StorePlace.of("s3://bucket/a lake")
    assert (place.text, place.directory, place.shown) == ("s3://bucket/a lake", None, "s3://bucket/a lake")


@pytest.mark.parametrize("root", ["/data/lake", "s3://bucket/lake"])
def test_places_are_beneath_and_above_one_another(root: str) -> None:
    place = StorePlace(root) / "public/ümläut" / "current"
    assert (place.text, place.name) == (f"{root}/public/ümläut/current", "current")
    assert place.parent.parent.parent == StorePlace(root)


def test_folders_and_lacking_files_of_a_directory(tmp_path: Path) -> None:
    place = StorePlace.of(tmp_path)
    for name in ("current__v2/a", "current__v10/a", "current/a", "history/a"):
        place.store.replace(name, b"")
    assert sorted(place.folders("current__v")) == ["current__v10", "current__v2"]
    assert list(place.lacking(["current/a", "current/b", "c"])) == ["current/b", "c"]


@pytest.mark.parametrize(
    ("place", "error", "code"),
    [
        ("s3://bucket/lake", OSError(errno.EIO, "status 503"), "TM-SPK-026"),
        ("s3://bucket/lake", PermissionError(errno.EACCES, "the store refuses it"), "TM-SPK-015"),
        ("/data/lake", OSError(errno.EIO, "Input/output error"), "TM-SPK-015"),
    ],
)
def test_only_what_may_pass_is_retried(place: str, error: OSError, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    failed = StorePlace(place).failed(error, "a")
    assert isinstance(failed, SparkError)
    assert (failed.code, failed.message) == (code, f"{place}/a: {error.strerror}")


def test_instants_as_spark_writes_them_may_be_of_any_year(tmp_path: Path) -> None:
    instants = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
    schema = arrow_schema({"at": "timestamp"})
    pq.write_table(pa.table({"at": instants}, schema), tmp_path / "file", use_deprecated_int96_timestamps=True)

    with StorePlace.of(tmp_path).parquet("file") as parquet:
        assert conformed(parquet.read(), schema).column("at").to_pylist() == instants
