"""Records the id of a capture's change log beside its capture file: not in the log's folder, which may disappear."""

from __future__ import annotations

import logging
from pathlib import Path

import orjson

logger = logging.getLogger(__name__)


class KnownLog:
    """The file ``.NAME.log`` beside the capture file ``NAME``: ``{"log": path, "log_id": …}``.

    Args:
        capture_file: Its path.
    """

    def __init__(self, capture_file: Path) -> None:
        self.path = capture_file.absolute().with_name(f".{capture_file.name}.log")

    def log_id(self, root: Path) -> str:
        """The id of the log that was at ``root``; empty where none is known to have been."""
        try:
            known = orjson.loads(self.path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return ""  # A hint: without it, a log that disappeared looks like one that never existed.
        if not isinstance(known, dict) or known.get("log") != str(root.absolute()):
            return ""
        return str(known.get("log_id") or "")

    def remember(self, root: Path, log_id: str) -> None:
        """Notes which log it is, where the folder of the capture file can be written."""
        if self.log_id(root) == log_id:
            return
        try:
            self.path.write_bytes(orjson.dumps({"log": str(root.absolute()), "log_id": log_id}))
        except OSError as error:
            logger.debug("%s cannot be written: %s", self.path, error.strerror)
