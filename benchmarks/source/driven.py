"""A connector driven as a runtime drives it: lines counted, state kept, checkpoints acknowledged, nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemark.protocol.state import merge_patch


class Driven:
    """One process of a connector, from ``open`` on.

    Args:
        command: Starts it.
        capture: The capture's spec, as ``open`` carries it.
        state: What an earlier process left.
        environment: More variables for it.

    Attributes:
        started: When it was started, on ``time.perf_counter``.
        first_row: When its first captured line came, None before.
        rows: Captured lines up to the last checkpoint.
        pending: Captured lines after it.
        state: As of the last checkpoint.
        acknowledging: Whether checkpoints are acknowledged at once; those before are when it is set again.
    """

    def __init__(
        self,
        command: Sequence[str],
        capture: Mapping[str, Any],
        state: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.started = time.perf_counter()
        self.first_row: float | None = None
        self.rows = self.pending = 0
        self.state: Any = dict(state)
        self.acknowledging = True
        self._owed = 0
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "LOG_LEVEL": "error", **(environment or {})},
            bufsize=1024 * 1024,
        )
        self._send({"open": {"capture": capture, "state": state}})

    def run(self, enough: Callable[[], bool]) -> None:
        """Reads until a checkpoint after which ``enough()``, or the end of the process."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b'{"captured"'):
                if self.first_row is None:
                    self.first_row = time.perf_counter()
                self.pending += 1
            elif line.startswith(b'{"checkpoint"'):
                body = json.loads(line)["checkpoint"].get("state", {})
                updated = body.get("updated", {})
                self.state = merge_patch(self.state, updated) if body.get("mergePatch") else updated
                self.rows += self.pending
                self.pending = 0
                self._acknowledge()
                if enough():
                    return

    def kill(self) -> None:
        """As a power cut would: SIGKILL."""
        self._process.kill()
        self._process.communicate()

    def finish(self) -> None:
        """Ends stdin, reads the rest, and waits."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.run(lambda: False)
        self._process.wait()

    def _acknowledge(self) -> None:
        self._owed += 1
        if self.acknowledging:
            self._send({"acknowledge": {"checkpoints": self._owed}})
            self._owed = 0

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # It has ended: what it wrote before is still there to be read.


def backfilled(state: Any) -> bool:
    """Whether every table of a connector's state is backfilled."""
    bindings = (state or {}).get("bindings") or {}
    return bool(bindings) and all((binding.get("scan") or {}).get("done") for binding in bindings.values())
