"""Waits between attempts."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from protocol.backoff import LONGEST_SECONDS, Backoff


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_waits_grow_with_jitter_up_to_the_longest(seed: int, failures: int) -> None:
    backoff = Backoff(random=Random(seed))
    waits = [backoff.failed() for _ in range(failures)]
    for number, wait in enumerate(waits):
        full = min(0.5 * 2**number, LONGEST_SECONDS)
        assert full / 2 <= wait <= full
    assert backoff.failures == failures
    backoff.reset()
    assert backoff.failed() <= 0.5


def test_a_failure_that_does_not_count() -> None:
    backoff = Backoff(8.0, 60.0)
    assert 4 <= backoff.wait() <= 8
    assert backoff.failures == 0


def test_the_longest_wait_is_reached_from_the_shortest_first_one() -> None:
    backoff = Backoff(0.0001, 60.0)
    for _ in range(1000):
        backoff.failed()
    assert 30 <= backoff.failed() <= 60
