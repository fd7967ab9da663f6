"""The samples of an hour, and what charts say of them in words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.runtime.page.charts import BYTES, LAG, RETAINED, ROWS, history_json
from tidemark.runtime.page.history import EVERY_SECONDS, SPAN_SECONDS, History, Reading
from tidemark.testing.deadline import wait_until


class Clock:
    """Goes on by five seconds each time it is asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += EVERY_SECONDS
        return self.now


def history_of(*readings: Reading) -> History:
    left = iter(readings)
    history = History(lambda: next(left), clock=Clock(), steady=Clock())
    for _ in readings:
        history.take()
    return history


def test_a_sample_has_the_growth_since_the_one_before() -> None:
    history = history_of(Reading(10, 100), Reading(60, 1100, 2.0, 7), Reading(60, 1100))
    assert [(one.number, one.rows, one.bytes, one.lag, one.retained) for one in history.samples()] == [
        (1, 10.0, 200.0, 2.0, 7),
        (2, 0.0, 0.0, None, None),
    ]


def test_a_count_that_begins_again_is_no_negative_rate() -> None:
    assert [one.rows for one in history_of(Reading(10, 100), Reading(0, 0)).samples()] == [0.0]


@given(st.integers(0, 2000), st.integers(0, 2100))
def test_there_are_samples_of_an_hour_and_each_is_had_once(taken: int, after: int) -> None:
    history = history_of(*(Reading(count, count) for count in range(taken + 1)))
    most = round(SPAN_SECONDS / EVERY_SECONDS)
    kept = range(max(1, taken - most + 1), taken + 1)
    assert [one.number for one in history.samples()] == [*kept]
    assert [one.number for one in history.samples(after)] == [number for number in kept if number > after]


def test_samples_are_taken_while_it_is_entered() -> None:
    counts = iter(range(10**9))
    with History(lambda: Reading(next(counts), 0), every=0.001) as history:
        wait_until(lambda: len(history.samples()) >= 3, 60, "three samples")
    assert not [number for number in (one.number for one in history.samples()) if number < 1]


def test_what_was_unknown_is_unknown_and_not_zero() -> None:
    samples = history_of(
        Reading(0, 0), Reading(50, 50_000, 2.0, 7000), Reading(50, 50_000), Reading(53, 50_000)
    ).samples()
    said = history_json((LAG, ROWS, BYTES, RETAINED), samples, 0)
    assert said["span"] == "10 s" and said["first"] == 1
    assert said["charts"] == [
        {"name": "lag", "last": "unknown", "lowest": "2 s", "highest": "2 s"},
        {"name": "rows", "last": "0.6/s", "lowest": "0/s", "highest": "10/s"},
        {"name": "bytes", "last": "0 B/s", "lowest": "0 B/s", "highest": "10.0 kB/s"},
        {"name": "retained", "last": "unknown", "lowest": "7.0 kB", "highest": "7.0 kB"},
    ]
    assert said["samples"][1]["values"] == [None, 0.0, 0.0, None]
    assert said["samples"][1]["words"] == ["unknown", "0/s", "0 B/s", "unknown"]
    assert [one["number"] for one in history_json((LAG,), samples, 2)["samples"]] == [3]


def test_nothing_is_known_before_the_first_sample() -> None:
    said = history_json((LAG,), [], 0)
    assert said["charts"] == [{"name": "lag", "last": "unknown", "lowest": "unknown", "highest": "unknown"}]
    assert said["samples"] == []
