"""The change log while this process is its writer."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from runtime.changelog.writer import LogWriter


class OwnedLog:
    """Opens the log's writer when it is asked for; again after ``close``, which a failure to write makes necessary."""

    def __init__(self, root: Path, capture: str) -> None:
        self._root = root
        self._capture = capture
        self._writer: LogWriter | None = None

    def writer(self) -> LogWriter:
        """The writer. Raises as ``LogWriter.open`` does."""
        if self._writer is None:
            self._writer = LogWriter.open(self._root, self._capture)
        return self._writer

    def close(self) -> None:
        """Gives the log free; what was not committed is gone."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def __enter__(self) -> Self:
        self.writer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
