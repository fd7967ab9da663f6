"""Rates that are smoothed, and waits that grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.engine.status import RateEstimate
from tidemark.captures.scheduling.backoff import FIRST_SECONDS, LONGEST_SECONDS, Backoff


@given(st.lists(st.floats(0.1, 60), min_size=1, max_size=50), st.integers(1, 100_000))
def test_a_steady_count_has_its_speed_from_the_first_sample_on(steps: list[float], speed: int) -> None:
    measured = RateEstimate()
    now = 0.0
    measured.note(now, 0)
    for step in steps:
        now += step
        measured.note(now, round(now * speed))
        assert measured.per_second == pytest.approx(speed, rel=1e-2, abs=6)


def test_a_new_speed_takes_over_gradually() -> None:
    measured = RateEstimate()
    for second in range(61):
        measured.note(second, second * 100)
    for second in range(61, 91):
        measured.note(second, 6000)
    assert 20 < measured.per_second < 60
    for second in range(91, 400):
        measured.note(second, 6000)
    assert measured.per_second < 1


def test_nothing_is_foretold_of_what_nobody_knows() -> None:
    measured = RateEstimate()
    assert measured.seconds_for(10) is None
    measured.note(0, 0)
    measured.note(1, 100)
    assert measured.seconds_for(100) is None, "one second is too little to tell from"
    measured.note(4, 400)
    assert measured.seconds_for(100) == pytest.approx(1)
    assert measured.seconds_for(0) == 0
    still = RateEstimate()
    still.note(0, 7)
    still.note(100, 7)
    assert still.seconds_for(1) is None


def test_a_count_that_falls_begins_anew() -> None:
    measured = RateEstimate()
    measured.note(0, 0)
    measured.note(10, 10_000)
    measured.note(11, 0)
    assert measured.per_second == 0
    measured.note(21, 100)
    assert measured.per_second == pytest.approx(10)


@given(st.integers(1, 2000))
def test_waits_grow_up_to_the_longest(failures: int) -> None:
    backoff = Backoff()
    for number in range(failures):
        full = min(FIRST_SECONDS * 2 ** min(number, 10), LONGEST_SECONDS)
        assert full / 2 <= backoff.failed() <= full
    assert backoff.failures == failures
    backoff.reset()
    assert backoff.failed() <= FIRST_SECONDS
