"""Waiting for a condition, and letting time pass where a random moment is the point."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHARE = 0.25
"""The share of the time that asking takes at most: a command that is asked leaves the processor to what is awaited."""

LONGEST_PAUSE = 0.5
"""In seconds."""

PATIENCE = 3
"""How many times as long as on a quiet machine anything may take on one that is busy: four processes test on two cores,
beside servers. A wait that succeeds takes no longer for it.
"""


def wait_until(condition: Callable[[], T | None], seconds: float, what: str, *, every: float | None = None) -> T:
    """Asks until ``condition()`` is true, and returns its value.

    Args:
        condition: What is asked.
        seconds: For how long, on a quiet machine: a busy one is given ``PATIENCE`` times as long.
        what: What is waited for, in words.
        every: Seconds between one answer and the next question; by default 0.02, more for what takes long to answer.

    Raises:
        AssertionError: Naming ``what``, when it is still false after ``seconds``.
    """
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"{what}: still not so after {seconds:g} s")
        time.sleep(max(0.02, pause(now - asked)) if every is None else every)


def pause(took: float) -> float:
    """How many seconds to ask nothing after a condition that took so many."""
    return min(took * (1 / SHARE - 1), LONGEST_PAUSE)


def let_pass(seconds: float) -> None:
    """Lets time pass, so that a kill comes at a random moment. Never to wait for something: see ``wait_until``."""
    time.sleep(seconds)
