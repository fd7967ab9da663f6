from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.log_path import log_and_warehouse
from tidemark.spark_sink.tables.store_place import StorePlace


def test_a_capture_file_names_log_and_warehouse(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("capture: shop\nconnector: {command: [x]}\nlog: ./shop.log\nspark: {warehouse: ./lake}\n")
    log = StorePlace.of(tmp_path / "shop.log")
    assert log_and_warehouse(file) == (log, StorePlace.of(tmp_path / "lake"))

    file.write_text("capture: shop\nconnector: {command: [x]}\nlog: ./shop.log\n")
    assert log_and_warehouse(str(file)) == (log, None)


def test_a_path_or_a_url_names_the_log_alone(tmp_path: Path) -> None:
    for given in (tmp_path, str(tmp_path), f"file://{tmp_path}"):
        assert log_and_warehouse(given) == (StorePlace(str(tmp_path)), None)
    assert log_and_warehouse("s3://bucket/shop.log") == (StorePlace("s3://bucket/shop.log"), None)


def test_no_place_is_an_error() -> None:
    with pytest.raises(SparkError, match="TM-SPK-003"):
        log_and_warehouse("")
