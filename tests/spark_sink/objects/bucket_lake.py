"""A log and a warehouse in a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from deltalake import DeltaTable

from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import LogBuilder
from tests.spark_sink.pipeline.kept_lake import KeptLake
from tidemark.protocol.store import Store
from tidemark.spark_sink.formats.delta_storage import delta_storage
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.object_store import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BucketLake(KeptLake):
    """A warehouse in a bucket, and the copy of a log there.

    Args:
        log: The log, in a directory.
        place: Where both go.
        session: Makes or gives a session.
    """

    def __init__(self, log: LogBuilder, place: StorePlace, session: Callable[[], SparkSession]) -> None:
        super().__init__(log, Path(), session)
        self.log_place = place / "shop.log"
        self.lake_place = place / "a lake"

    def settings(self, *kinds: str, **more: Any) -> KeepSettings:
        publish(self.log.root, self.log_place.store)
        return KeepSettings(self.log_place, self.lake_place, KeepRules({"*": kinds or ("current", "history")}), **more)

    def delta(self, kind: str, collection: str = ITEMS) -> DeltaTable:
        place = self.lake_place / f"{collection}/{kind}"
        return DeltaTable(place.text, storage_options=delta_storage(place))


def publish(root: Path, store: Store) -> None:
    """Copies what of a log a store does not have: segments first, then commits in their order."""
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    for path in sorted(paths, key=lambda path: (path.startswith("commits/"), path)):
        if not store.exists(path):
            store.replace(path, (root / path).read_bytes())


def capture_file(folder: Path, lake: BucketLake, s3: S3Server, **secrets: object) -> Path:
    """The capture file of a lake, with these values in its ``store`` entry."""
    entry = {**s3.entry, **secrets}
    file = folder / "shop.yaml"
    content = {
        "capture": "test",
        "connector": {"command": ["x"]},
        "log": lake.log_place.text,
        "store": entry,
        "spark": {"warehouse": lake.lake_place.text, "tables": {"*": ["current", "history"]}},
    }
    file.write_text(yaml.safe_dump(content))
    return file
