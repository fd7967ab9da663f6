"""Records the id of a capture's change log: not in the log's folder, which may disappear."""

from __future__ import annotations

import logging
from pathlib import Path

import orjson

from tidemark.protocol.messages import JsonObject
from tidemark.protocol.store import Store
from tidemark.runtime.progress.state_folder import digest_of, user_folder

logger = logging.getLogger(__name__)


class KnownLog:
    """The file ``.NAME.log`` beside the capture file ``NAME``: ``{"log": path or URL, "log_id": …}``.

    If that folder cannot be written, as with a capture file that is mounted read-only, the file is in the user's folder
    for state (XDG Base Directory Specification), below ``tidemark``.

    Args:
        capture_file: Its path.

    Attributes:
        path: The file with the record: the one beside the capture file, unless the other one has it.
    """

    def __init__(self, capture_file: Path) -> None:
        file = capture_file.absolute()
        self._beside = file.with_name(f".{file.name}.log")
        self._own = user_folder() / f"{file.stem}-{digest_of(file)}.log"
        self.path = self._beside

    def place(self) -> str | None:
        """The directory or the URL of the log that is recorded; None where none is."""
        for path in (self._beside, self._own):
            if log := _record(path).get("log"):
                return str(log)
        return None

    def log_id(self, log: Store) -> str:
        """The id of the log that was in ``log``; empty where none is known to have been."""
        for path in (self._beside, self._own):
            if log_id := _remembered(path, log):
                self.path = path
                return log_id
        return ""

    def remember(self, log: Store, log_id: str) -> None:
        """Records which log it is; warns if neither file can be written."""
        if self.log_id(log) == log_id:
            return
        content = orjson.dumps({"log": _place(log), "log_id": log_id})
        reasons = []
        for path in (self._beside, self._own):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except OSError as error:
                reasons.append(f"{path}: {error.strerror}")
                continue
            self.path = path
            return
        logger.warning(
            "the id of this capture's change log is recorded nowhere (%s): if the log's folder disappears, the capture "
            "starts over; make one of these paths writable",
            "; ".join(reasons),
        )


def _remembered(path: Path, log: Store) -> str:
    known = _record(path)
    return str(known.get("log_id") or "") if known.get("log") == _place(log) else ""


def _place(log: Store) -> str:
    return log.place if log.directory is None else str(log.directory.absolute())


def _record(path: Path) -> JsonObject:
    try:
        known = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}  # A hint: without it, a log that disappeared looks like one that never existed.
    return known if isinstance(known, dict) else {}
