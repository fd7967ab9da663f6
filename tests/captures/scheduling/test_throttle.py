"""What holds backfills back, and what the log does meanwhile."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.session import Json, Session, apply, session
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tidemark.captures.contract.options import BackfillConfig, QuietHours
from tidemark.captures.scheduling.throttle import Throttle
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database


def test_a_rate_is_kept(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill={"readers": 3, "chunk_rows": 20, "max_rate": "400 rows"})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(c.documents) > 0)
        began = time.monotonic()
        capture.until(Session.done)
        # The first chunks are free, and a chunk may be emitted for each reader when the rate is spent.
        assert (time.monotonic() - began) >= (1000 - 6 * 20) / 400 * 0.9
        assert capture.rows() == table_rows(database)


def test_a_rate_in_bytes_is_kept_and_told_with_the_time_left(database: Database) -> None:
    prepare(database, USERS, FILL, "ANALYZE users")
    # It would take half a minute, of which a busy machine may sleep through a few seconds.
    config = endpoint(database, backfill={"max_rate": "1kB", "chunk_rows": 5})
    apply(config, BOUND)

    def told() -> list[Json]:
        lines = [line["fields"] for line in capture.logs if line.get("eventType") == "connectorStatus"]
        # Between two chunks the table waits for its rate.
        scanned = [fields for fields in lines if fields["tables"]["public.users"]["state"] == "scanning"]
        return [fields for fields in scanned if fields["seconds_left"]]

    with session(config, BOUND) as capture:
        capture.until(lambda c: told())
        assert not capture.done()
        progress = told()[0]
        table = progress["tables"]["public.users"]
        assert table["rows_estimated"] == 1000
        assert progress["retained_bytes"] is not None
        speed = table["bytes_done"] / table["rows_done"] * table["rows_per_second"]
        assert speed < 1000 * 1.3
        assert table["seconds_left"] == pytest.approx(
            (1000 - table["rows_done"]) / table["rows_per_second"], rel=0.05, abs=0.2
        )


def test_quiet_hours_hold_chunks_and_not_the_log(database: Database) -> None:
    prepare(database, USERS, FILL)
    now = datetime.now(UTC)
    hours = f"{now - timedelta(hours=2):%H:%M}-{now + timedelta(hours=2):%H:%M}"
    config = endpoint(database, backfill={"quiet_hours": hours})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: c.checkpoints > 0)
        prepare(database, "INSERT INTO users VALUES (-1, 'through the log')")
        capture.until(lambda c: c.rows() == {(-1,): {"id": -1, "name": "through the log"}})
        wait_until(
            lambda: any(line.get("fields", {}).get("held") == "quiet hours" for line in capture.logs), 20, "it says why"
        )
    with session({**config, "backfill": {}}, BOUND, capture.state, stop=True) as again:
        again.documents = list(capture.documents)
        assert again.finish() == 0
        assert again.rows() == table_rows(database)


class Clock:
    """Passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_replicas_that_are_behind_hold_chunks_until_they_are_not() -> None:
    clock, lags = Clock(), [0.5, 9.0, 8.0, None]
    asked: list[float] = []

    def replica_lag() -> float | None:
        asked.append(clock.now)
        return lags.pop(0)

    throttle = Throttle(BackfillConfig(max_replica_lag=2.0), replica_lag, clock)
    waits = []
    for _ in range(4 * 5):
        throttle.ask()
        waits.append(throttle.remaining() > 0)
        clock.now += 1
    assert asked == [1000, 1005, 1010, 1015], "replicas are asked now and then"
    assert waits == [False] * 5 + [True] * 10 + [False] * 5
    assert throttle.reason == ""


def test_replicas_are_not_asked_without_a_limit() -> None:
    def replica_lag() -> float | None:
        raise AssertionError("nobody wants to know")

    throttle = Throttle(BackfillConfig(), replica_lag, Clock())
    throttle.ask()
    assert throttle.remaining() == 0


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10**6)), max_size=30), st.integers(1, 10**4))
def test_chunks_wait_until_what_was_emitted_is_within_the_rate(chunks: list[tuple[int, int]], rate: int) -> None:
    clock = Clock()
    throttle = Throttle(BackfillConfig.model_validate({"max_rate": f"{rate} rows"}), lambda: None, clock)
    rows = 0
    for count, size in chunks:
        clock.now += throttle.remaining()
        assert throttle.remaining() == pytest.approx(0, abs=1e-6)
        assert rows <= rate * (clock.now - 1000) + 1e-3
        throttle.spend(count, size)
        rows += count
    assert throttle.chunk_rows(10**6, 0) == max(1, rate)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("20000 rows", (20000.0, True)),
        ("0.5 rows", (0.5, True)),
        ("10MB", (10e6, False)),
        ("512 KiB/s", (512 * 1024.0, False)),
        ("100 rows/s", (100.0, True)),
    ],
)
def test_rates(text: str, rate: tuple[float, bool]) -> None:
    assert BackfillConfig.model_validate({"max_rate": text}).max_rate == rate


@pytest.mark.parametrize("text", ["", "fast", "10", "-5 rows", "0 rows", "10 mB", "rows 10"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="rate"):
        BackfillConfig.model_validate({"max_rate": text})


@pytest.mark.parametrize(
    "text", ["", "8-20", "08:00-08:00", "25:00-26:00", "08:00-20:00 Nowhere/Atall", "08:00-20:00 ../x", "08:60-09:00"]
)
def test_what_are_no_quiet_hours(text: str) -> None:
    with pytest.raises(ValueError, match="quiet_hours"):
        BackfillConfig.model_validate({"quiet_hours": text})


def _at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("hours", "now", "remaining"),
    [
        ("08:00-20:00", _at("2026-03-01T07:59:59"), 0),
        ("08:00-20:00", _at("2026-03-01T08:00:00"), 12 * 3600),
        ("08:00-20:00", _at("2026-03-01T19:59:00"), 60),
        ("08:00-20:00", _at("2026-03-01T20:00:00"), 0),
        ("22:00-6:00", _at("2026-03-01T23:00:00"), 7 * 3600),
        ("22:00-6:00", _at("2026-03-01T05:00:00"), 3600),
        ("22:00-6:00", _at("2026-03-01T12:00:00"), 0),
        ("08:00-20:00 Europe/Berlin", _at("2026-07-01T19:00:00", "Europe/Berlin"), 3600),
        # The night in which the clock goes forward is an hour shorter, and the one in which it goes back longer.
        ("22:00-06:00 Europe/Berlin", _at("2026-03-28T22:00:00", "Europe/Berlin"), 7 * 3600),
        ("22:00-06:00 Europe/Berlin", _at("2026-10-24T22:00:00", "Europe/Berlin"), 9 * 3600),
    ],
)
def test_quiet_hours(hours: str, now: float, remaining: float) -> None:
    assert QuietHours.parse(hours).remaining(now) == remaining


@given(st.times(), st.times(), st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]), st.integers(0, 2_000_000_000))
def test_after_what_remains_of_quiet_hours_they_are_over(begin, end, zone, now) -> None:  # type: ignore[no-untyped-def]
    text = f"{begin:%H:%M}-{end:%H:%M} {zone}"
    if f"{begin:%H:%M}" == f"{end:%H:%M}":
        return
    hours = QuietHours.parse(text)
    remaining = hours.remaining(now)
    assert 0 <= remaining <= 25 * 3600
    assert hours.remaining(now + remaining) == 0
