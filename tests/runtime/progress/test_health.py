"""What is told of a capture's health while it runs."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.runtime.progress.health import Health, Moments
from tidemark.runtime.progress.quantities import ago


def test_times_are_right_by_the_present_clock_though_it_was_set() -> None:
    times = [1000.0, 5.0]
    health = Health(Moments(lambda: times[0], lambda: times[1]))
    times[:] = [1060.0, 65.0]
    health.failed("TM-PG-001", "it is away", "wait")
    times[:] = [1060.5 - 3600, 66.0]

    def told(name: str) -> float:
        fields = health.as_fields()
        return datetime.fromisoformat({**fields, **fields["error"]}[name]).timestamp()

    assert (told("started"), told("time")) == (999.5 - 3600, 1059.5 - 3600), "61 seconds ago, and one second"
    before = health.as_fields()
    times[:] = [times[0] + 10.001, times[1] + 10]
    assert health.as_fields() == before, "a clock that is adjusted does not move what has happened"
    assert datetime.fromisoformat(before["started"]).tzinfo == UTC


def test_a_connector_without_status_lines_is_not_said_to_have_failed_until_another_is_open() -> None:
    health = Health()
    health.connector_ended("TM-RUN-003")
    assert health.as_fields()["retry"] is None
    health.connector_ended("TM-LOG-008")
    assert health.as_fields()["retry"]["code"] == "TM-LOG-008"


def test_the_age_of_what_a_clock_ahead_has_noted() -> None:
    assert [ago(12), ago(-1)] == ["12 s ago", "0 ms ago"]
    assert ago(-90) == "just now (by a clock that is 1 min 30 s ahead of this machine's)"
