"""The directory of a change log that a user names."""

from __future__ import annotations

from pathlib import Path

from tidemark.protocol.errors import SparkError


def log_path(path_or_file: str | Path) -> Path:
    """The change log's directory, absolute, from a path or a ``file:`` URL.

    Raises:
        SparkError: ``TM-SPK-003`` for another URL, or an empty text.
    """
    text = str(path_or_file).removeprefix("file://")
    if not text:
        raise SparkError("TM-SPK-003", "option path is missing: the directory of the change log")
    if "://" in text:
        raise SparkError(
            "TM-SPK-003", f"option path is {text}: this version reads change logs only from local directories"
        )
    return Path(text).absolute()


def log_and_warehouse(path_or_file: str | Path) -> tuple[Path, Path | None]:
    """The directories of the change log and of the kept tables, from a log's path or a capture file.

    Returns:
        The log and the warehouse. The warehouse is None for a log's path.

    Raises:
        SparkError: As ``log_path``.
        UsageError: ``TM-CFG-…`` for a capture file that is wrong.
    """
    path = Path(path_or_file)
    if not path.is_file():
        return log_path(path_or_file), None
    from tidemark.protocol.capture_file import read_capture_file

    capture = read_capture_file(path)
    warehouse = (capture.folder / capture.spark.warehouse).absolute() if capture.spark else None
    return capture.log_path.absolute(), warehouse
