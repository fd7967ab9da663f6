"""The places of a change log and of kept tables that a user names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.protocol.errors import SparkError
from tidemark.protocol.store.opening import is_url
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from tidemark.protocol.capture_file import CaptureFile


def log_and_warehouse(place_or_file: str | Path) -> tuple[StorePlace, StorePlace | None]:
    """The places of the change log and of the kept tables, from a path or a URL of the log, or from a capture file.

    A capture file says what opens an object store. Without one each process takes that from its own environment.

    Returns:
        The log and the warehouse, which is None where only the log is named, or the file has no ``spark`` entry.

    Raises:
        SparkError: ``TM-SPK-003`` for an empty text.
        UsageError: ``TM-CFG-…`` for a capture file that is wrong.
    """
    text = str(place_or_file).removeprefix("file://")
    if not text:
        raise SparkError("TM-SPK-003", "option path is missing: the change log's directory or URL, or the capture file")
    if is_url(text) or not Path(text).is_file():
        return StorePlace.of(text), None
    from tidemark.protocol.capture_file import read_capture_file

    return places_of(read_capture_file(Path(text)))


def places_of(capture: CaptureFile) -> tuple[StorePlace, StorePlace | None]:
    """The same of a capture file that was read."""
    settings = capture.store_settings

    def place(written: Path | str) -> StorePlace:
        return StorePlace.of(written if isinstance(written, str) else capture.folder / written, settings)

    return place(capture.log), place(capture.spark.warehouse) if capture.spark else None
