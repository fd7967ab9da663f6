"""Where a change log is that a user names."""

from __future__ import annotations

from pathlib import Path

from protocol.errors import SparkError

_FILE = "file://"


def log_path(path_or_file: str | Path) -> Path:
    """The directory of the change log, absolute, that a path or a ``file:`` URL names.

    Raises:
        SparkError: ``TM-SPK-003`` for a URL of another kind, or nothing.
    """
    text = str(path_or_file)
    if text.startswith(_FILE):
        text = text.removeprefix(_FILE)
    if not text:
        raise SparkError("TM-SPK-003", "option path is missing: the directory of the change log")
    if "://" in text:
        raise SparkError("TM-SPK-003", f"option path is {text}: this version reads change logs in directories only")
    return Path(text).absolute()
