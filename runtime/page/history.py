"""The figures of the last hour, in memory: a sample every few seconds, and a bounded number of them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Self

EVERY_SECONDS = 5.0

SPAN_SECONDS = 3600.0
"""Samples are kept for so long."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of a command at one moment.

    Attributes:
        rows: How many rows it has written so far.
        bytes: How many bytes these took.
        lag_seconds: How far it is behind; None while that is unknown.
        retained_bytes: Log that the source retains for it; None while that is unknown.
    """

    rows: int
    bytes: int
    lag_seconds: float | None = None
    retained_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What a chart shows at one moment. What was unknown is None.

    Attributes:
        number: Each sample has the next one.
        time: In seconds since 1970.
        rows: Per second, since the sample before.
        bytes: Per second, since the sample before.
        lag: In seconds.
        retained: In bytes.
    """

    number: int
    time: float
    rows: float
    bytes: float
    lag: float | None
    retained: float | None


class History:
    """Takes samples while it is entered, in a thread of its own.

    Args:
        read: Reads the figures. It must not wait for others.
        every: Seconds between two samples.
        clock: The time in seconds since 1970.
        steady: A clock that nobody sets, in seconds.
    """

    def __init__(
        self,
        read: Callable[[], Reading],
        every: float | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._every = EVERY_SECONDS if every is None else every
        self._clock, self._steady = clock, steady
        self._samples: deque[Sample] = deque(maxlen=round(SPAN_SECONDS / EVERY_SECONDS))
        self._lock = threading.Lock()
        self._number = 0
        self._before: tuple[float, Reading] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="history", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def take(self) -> None:
        """Takes a sample now. The first reading gives none: nothing is known of the time before it."""
        now, reading, before = self._steady(), self._read(), self._before
        self._before = now, reading
        if before is None or now <= before[0]:
            return
        seconds, last = now - before[0], before[1]
        self._number += 1
        sample = Sample(
            self._number,
            self._clock(),
            max(0, reading.rows - last.rows) / seconds,
            max(0, reading.bytes - last.bytes) / seconds,
            reading.lag_seconds,
            reading.retained_bytes,
        )
        with self._lock:
            self._samples.append(sample)

    def samples(self, after: int = 0) -> list[Sample]:
        """The samples with greater numbers than this, the oldest first. From any thread."""
        with self._lock:
            newer = min(max(0, self._number - after), len(self._samples))
            return list(islice(self._samples, len(self._samples) - newer, None))

    def _sample(self) -> None:
        self.take()
        while not self._over.wait(self._every):
            self.take()
