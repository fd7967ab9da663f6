"""What the runtime shows of a running capture."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol, Self

from tidemark.protocol.changelog import Commit
from tidemark.protocol.log_lines import LogLine

LEVELS = {"trace": 5, "debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "fatal": 50}


def severity(level: str) -> int:
    """A level as a number; an unknown one counts as info."""
    return LEVELS.get(level.lower(), LEVELS["info"])


class Display(Protocol):
    """Shows a running capture. Its methods may be called from any thread."""

    def log(self, line: LogLine) -> None:
        """A log line of the connector, secrets blanked; a status line becomes figures."""

    def notice(self, level: str, message: str, **fields: Any) -> None:
        """A message of the runtime, such as a restart."""

    def expect(self, tables: Iterable[str]) -> None:
        """These tables will be captured."""

    def committed(self, commit: Commit, seconds: float) -> None:
        """A commit is durable, so many seconds after the last of its events had come."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Passing:
    """A display that passes everything to another one. Whatever else it does, its own methods do before or after."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def log(self, line: LogLine) -> None:
        self._display.log(line)

    def notice(self, level: str, message: str, **fields: Any) -> None:
        self._display.notice(level, message, **fields)

    def expect(self, tables: Iterable[str]) -> None:
        self._display.expect(tables)

    def committed(self, commit: Commit, seconds: float) -> None:
        self._display.committed(commit, seconds)

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, trace)
