"""The rows that Spark has of tables, as they are compared."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import TidemarkError
from tidemark.runtime.verification.comparison import Kept
from tidemark.runtime.verification.subjects import Subject

if TYPE_CHECKING:
    from tidemark.spark_sink.live.kept_rows import KeptRows


class KeptTables:
    """The current tables that Spark keeps; none without a ``spark`` entry. What reads them ends with the context.

    Args:
        capture: The capture file.
    """

    def __init__(self, capture: CaptureFile) -> None:
        self._capture = capture
        self._opened: KeptRows | None = None

    def of(self, subject: Subject) -> Kept | None:
        """What reads the table that is kept of a subject."""
        if self._capture.spark is None:
            return None
        return lambda offset, schema: self._rows().of(subject.name, offset, schema)

    def unreadable(self, subjects: Iterable[Subject], log: ChangeLog) -> dict[Subject, str]:
        """The subjects whose kept table cannot be read now, and why.

        A session on a cluster is opened for it, and ended: while the source is read, others may have its cores.
        """
        if self._capture.spark is None:
            return {}
        known, end = log.summary().totals, log.end()
        found = {}
        with _kept_rows(self._capture) as kept:
            for subject in subjects:
                if subject.collection not in known:
                    continue  # Spark keeps nothing of a table that never had an event.
                try:
                    kept.reach(subject.name, end)
                except TidemarkError as error:
                    found[subject] = f"{error.code}: {error.message}"
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._opened is not None:
            self._opened.__exit__(kind, error, at)

    def _rows(self) -> KeptRows:
        if self._opened is None:
            self._opened = _kept_rows(self._capture)
        return self._opened


def _kept_rows(capture: CaptureFile) -> KeptRows:
    # Only this command needs it, it takes long, and an installation may lack it.
    from tidemark.spark_sink.spark.requirements import check_packages

    check_packages()
    from tidemark.spark_sink.live.kept_rows import KeptRows

    return KeptRows(capture)
