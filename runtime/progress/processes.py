"""What the system says of a process of this machine."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_HALTED = ("T", "t")
_ENDED = ("Z", "X")


@dataclass(frozen=True, slots=True)
class Process:
    """A process that has not ended.

    Attributes:
        halted: By a signal or a debugger.
        began: When it was started; None where the system does not say.
    """

    halted: bool = False
    began: datetime | None = None


def known(pid: int) -> Process | None:
    """What is known of a process; None if none has this id, or if it has ended and its parent has not noticed yet."""
    if pid <= 0:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # It is there, of another user.
    with suppress(OSError):  # Without proc(5), or it has ended just now: then it is seen the next time.
        # The name, in parentheses, may have blanks and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] in _ENDED:
            return None
        return Process(fields[0] in _HALTED, _time_of(int(fields[19])))
    return Process()


def uptime() -> float:
    """A clock in seconds that nobody sets: since the machine was started, where the system has it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _time_of(ticks: int) -> datetime:
    """A time that is given in ticks since the machine was started."""
    ago = uptime() - ticks / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(time.time() - ago, UTC)
