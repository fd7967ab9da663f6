"""Processes of a connector that are started before their request is known: then several start side by side."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tidemark.runtime.connector.interface import Connector, RunningConnector


class EarlyStarts:
    """A connector whose processes can be started before they are needed.

    A process takes most of its start for imports, and most of the start of a capture is starts of processes.

    As a context manager ends the processes that nobody needed; others can be started after that, too.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._early: list[tuple[Mapping[str, str], str, RunningConnector]] = []

    @property
    def name(self) -> str:
        return self._connector.name

    @property
    def kind(self) -> str:
        return self._connector.kind

    def begin(self, environment: Mapping[str, str], *, session: str = "") -> None:
        """Starts a process for a later ``start`` with the same arguments, unless there is one. Raises as ``start``."""
        if any((begun_with, begun_for) == (environment, session) for begun_with, begun_for, _ in self._early):
            return
        self._early.append((environment, session, self._connector.start(environment, session=session)))

    def start(self, environment: Mapping[str, str], *, session: str = "") -> RunningConnector:
        """See ``Connector``."""
        for place, (begun_with, begun_for, running) in enumerate(self._early):
            if (begun_with, begun_for) == (environment, session):
                del self._early[place]
                return running
        return self._connector.start(environment, session=session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._early:
            *_, running = self._early.pop()
            running.kill()
            running.wait(None)
            running.release()
