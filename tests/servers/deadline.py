"""Waiting for a condition, and letting time pass where a random moment is the point."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], seconds: float, what: str, *, every: float = 0.02) -> T:
    """Asks ``every`` so many seconds until ``condition()`` is true, and returns its value.

    Raises:
        AssertionError: Naming ``what``, when it is still false after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: still not so after {seconds:g} s")
        time.sleep(every)


def let_pass(seconds: float) -> None:
    """Lets time pass, so that a kill comes at a random moment. Never to wait for something: see ``wait_until``."""
    time.sleep(seconds)
