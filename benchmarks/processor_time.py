"""Processor time of what a benchmark measures, as proc(5) tells it: whether the machine is the limit is to be seen."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tidemark.testing.servers.server_process import ServerProcess


@dataclass(slots=True)
class Spent:
    """Seconds of one run: of the clock, of the processes that were started and waited for, and of the server's."""

    seconds: float = 0.0
    ours: float = 0.0
    server: float = 0.0

    @property
    def cpu(self) -> float:
        """Seconds of processor of both."""
        return self.ours + self.server

    @property
    def cores(self) -> float:
        """How many cores both kept busy."""
        return self.cpu / self.seconds

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.seconds + other.seconds, self.ours + other.ours, self.server + other.server)

    def __str__(self) -> str:
        return f"{self.cpu:7.1f} CPU-s {self.seconds:7.1f} s"

    def per_row(self, rows: int) -> str:
        """Microseconds of processor that a row took, ours and the server's, and what of the machine was busy."""
        ours, server = (seconds / rows * 1e6 for seconds in (self.ours, self.server))
        busy = f"{self.cores:.1f} of {os.cpu_count()} cores busy"
        return f"{ours:.1f} + {server:.1f} us of processor a row (ours, the server's), {busy}"


@contextmanager
def spent(running: ServerProcess | None) -> Iterator[Spent]:
    """What is spent inside; known at the end. Only on Linux. Without a server of ours, nothing is its own."""
    if sys.platform != "linux":
        sys.exit("processor time of a server is known on Linux only")
    result = Spent()
    ours, server, started = children_seconds(), _server_seconds(running), perf_counter()
    yield result
    result.seconds = perf_counter() - started
    result.ours = children_seconds() - ours
    result.server = _server_seconds(running) - server


def timed(running: ServerProcess | None, work: Callable[[], object]) -> Spent:
    """Does a piece of work, and says what was spent."""
    with spent(running) as found:
        work()
    return found


def tree_seconds(pid: int) -> float:
    """Of a process, of those that it started and that run, of theirs, and of all of them that have ended.

    A sum lacks a process that ends after its parent was looked at, and before it is looked at itself. So the largest of
    three sums.
    """
    return max(_tree_ticks(pid) for _ in range(3)) / os.sysconf("SC_CLK_TCK")


def _tree_ticks(pid: int) -> int:
    return sum(_stat(pid)[11:15]) + sum(map(_tree_ticks, children(pid)))


def children_seconds() -> float:
    """Of the processes that were started and waited for, and of those that they waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _server_seconds(running: ServerProcess | None) -> float:
    """Of the server's first process, of its processes that have ended, and of those that run."""
    if running is None:
        return 0.0
    first = running.pid
    assert first is not None  # It runs.
    ticks = sum(_stat(first)[11:15])
    ticks += sum(sum(_stat(child)[11:13]) for child in children(first))
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> Iterator[int]:
    """Processes that a process started and that run."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from map(int, task.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # The thread, or the process, has ended.


def _stat(pid: int) -> list[int]:
    """The numbers of /proc/PID/stat from the state on, which counts as 0; all 0 of a process that has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return [0] * 50
    return [0, *map(int, text.rpartition(")")[2].split()[1:])]
