"""One capture through many sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack

from tests.captures.session import ConnectorEnded, Json, Session


class Sessions:
    """A session, opened again after a kill, or after an error that passes.

    Args:
        stack: Ends them all.
        begin: Opens one with the state of the last one; None at first.
        passing: Codes of errors that pass because tables change all the time, besides those that are retried.

    Attributes:
        current: The one that is open, with the documents of all.
    """

    def __init__(
        self,
        stack: ExitStack,
        begin: Callable[[Json | None], AbstractContextManager[Session]],
        passing: Collection[str],
    ) -> None:
        self._stack = stack
        self._begin = begin
        self._passing = passing
        self.current = stack.enter_context(begin(None))

    def listen(self, seconds: float) -> None:
        """Takes what comes in that time."""
        end = time.monotonic() + seconds
        try:
            self.current.until(lambda _: time.monotonic() >= end)
        except ConnectorEnded:
            self.open_again()

    def kill(self) -> None:
        """Ends the process and waits until it has ended."""
        self.current.process.kill()
        self.current.process.wait()

    def open_again(self, *, killed: bool = False) -> None:
        if not killed:
            last = self.current.logs[-1]
            assert last["fields"]["policy"] == "retry" or last["fields"]["code"] in self._passing, last
        documents, state = self.current.documents, self.current.state
        self.current.close()
        self.current = self._stack.enter_context(self._begin(state))
        self.current.documents = documents
