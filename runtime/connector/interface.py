"""What the runtime needs of a connector, however it runs."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidemark.protocol.log_lines import LogLine

LogSink = Callable[[LogLine], None]
"""Takes each line of a connector's stderr, secrets already blanked. Called from the thread that reads stderr."""

GRACE_SECONDS = 4.0
"""How long a connector that was asked to end may take before it is killed. Twice this time, after the end of its
stdout, is less than the ten seconds that container engines give a command to end."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a connector's process ended.

    Attributes:
        status: Its exit status; 0 is a clean end.
        signal: The signal that killed it, None when it ended by itself.
    """

    status: int
    signal: int | None = None

    @property
    def clean(self) -> bool:
        return self.status == 0 and self.signal is None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exited with status {self.status}"
        try:
            name = signal.Signals(self.signal).name
        except ValueError:
            name = "unknown"
        return f"was killed by signal {self.signal} ({name})"


class RunningConnector(ABC):
    """One process that speaks the protocol. Its owner ends it with ``stop`` and frees it with ``release``.

    Attributes:
        stdout: Descriptor to read the protocol from.
        stderr: Descriptor to read log lines from.
    """

    stdout: int
    stderr: int

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Writes all of ``data`` to its stdin; blocks while it does not read. Raises OSError when stdin is closed."""

    @abstractmethod
    def close_stdin(self) -> None:
        """Ends its stdin. Called from the thread that writes, or when that thread is over; more than once is fine."""

    @abstractmethod
    def wait(self, seconds: float | None) -> Exit | None:
        """How it ended; None when it still runs after ``seconds`` (None: waits for as long as it takes)."""

    @abstractmethod
    def terminate(self) -> None:
        """Asks it to end (SIGTERM). Does nothing when it has ended."""

    @abstractmethod
    def kill(self) -> None:
        """Ends it and whatever it started, at once. Does nothing when it has ended."""

    @abstractmethod
    def release(self) -> None:
        """Frees descriptors and, for a container, the container. The process has ended before."""

    def stop(self, grace: float = GRACE_SECONDS) -> Exit:
        """Ends it: SIGTERM, and after ``grace`` seconds SIGKILL. Does nothing when it has ended."""
        self.terminate()
        ended = self.wait(grace)
        if ended is None:
            self.kill()
            ended = self.wait(None)
        assert ended is not None  # without a limit, wait returns only when it has ended
        return ended


class Connector(Protocol):
    """A way to start a connector: every request of the protocol gets its own process."""

    @property
    def name(self) -> str:
        """What messages call it: the image, or the command's first words."""

    @property
    def kind(self) -> str:
        """``connectorType`` of the protocol: IMAGE or LOCAL."""

    def start(self, environment: Mapping[str, str], *, session: str = "") -> RunningConnector:
        """Starts it with these variables added to its environment.

        Args:
            session: Identity of the capture for a connector that is going to be opened. What an earlier runtime
                that was killed left running under the same identity is removed first.

        Raises:
            ConnectorError: ``TM-RUN-001``, ``TM-RUN-007``, ``TM-RUN-008`` or ``TM-RUN-009``.
        """
