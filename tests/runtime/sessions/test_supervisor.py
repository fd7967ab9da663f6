"""Restarts: when, how often, from which state, and when no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, Step, error_line
from tests.runtime.logged_events import events
from tests.runtime.scripted_sessions import AT_ONCE, Recorder, files, prepared
from tests.runtime.sessions.test_generations import BEGIN, COMPLETE, DAY, TEXT, checkpoint, generations, schema
from tests.runtime.steering.test_steering import ANNOUNCE
from tests.runtime.test_foreign_connectors import captured
from tidemark.protocol.changelog import ChangeLog, Commit
from tidemark.protocol.errors import ChangeLogError, ConnectorError
from tidemark.protocol.store.opening import opened
from tidemark.runtime.sessions.interruption import Interruption
from tidemark.runtime.sessions.owned_log import OwnedLog
from tidemark.runtime.sessions.supervisor import MOST_FAILURES, Supervisor
from tidemark.testing.http_faults import Fault, http_faults
from tidemark.testing.object_store import S3Server

ROW_1 = {"rows": {"first": 1, "count": 1}}
ROW_2 = {"rows": {"first": 2, "count": 1}}
CRASH = {"signal": 9}


def run(folder: CaptureFolder, *, until_caught_up: bool = True, display: Recorder | None = None) -> Recorder:
    display = display or Recorder()
    log = OwnedLog(folder.log_store, "shop", folder.state)
    with Interruption() as interruption, log:
        Supervisor(
            prepared(folder),
            log,
            AT_ONCE,
            interruption,
            display,
            until_caught_up=until_caught_up,
            first_delay_seconds=0.0001,
        ).run()
    return display


def test_a_crashed_connector_is_opened_again_at_the_last_commit(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, ROW_1, {"checkpoint": {"cursor": 1}}, {"await": 1}, ROW_2, CRASH],
        [OPENED, ROW_2, {"checkpoint": {"cursor": 2}}],
    )
    display = run(folder)
    assert folder.ids() == [1, 2]
    assert [request["state"] for request in folder.requests("open")] == [{}, {"cursor": 1}]
    assert len(display.notices) == 1
    assert "killed by signal 9" in display.notices[0][1]
    assert "from the last commit" in display.notices[0][1]


def test_what_a_crash_left_uncommitted_is_nowhere(folder: CaptureFolder) -> None:
    many = {"rows": {"first": 1, "count": 200_000}}
    folder.script([OPENED, many, CRASH], [OPENED, ROW_1, {"checkpoint": {"cursor": 1}}])
    run(folder)
    assert folder.ids() == [1]
    named = {segment.path for commit in folder.log.commits() for segment in commit.segments}
    assert files(folder.log_path) == named


def test_an_error_for_a_person_stops_at_once(folder: CaptureFolder) -> None:
    line = error_line("slot is gone", code="TM-PG-012", policy="manual", remedy="make a slot")
    folder.script([OPENED, line, {"exit": 1}])
    with pytest.raises(ConnectorError) as caught:
        run(folder)
    assert (caught.value.code, caught.value.message, caught.value.remedy) == (
        "TM-PG-012",
        "slot is gone",
        "make a slot",
    )
    assert len(folder.requests("open")) == 1


def fails(**fields: str) -> list[Step]:
    """A session of a connector that nobody here wrote, which ends with these fields in its last line."""
    return [OPENED, error_line("licence expired", **fields), {"exit": 1}]


@pytest.mark.parametrize("code", ["ACME-7", "TM-LOG-008", ""])
def test_an_error_that_its_connector_calls_permanent_stops_at_once(folder: CaptureFolder, code: str) -> None:
    """Also if the code is unknown here, is one of the runtime's that is retried, or is missing."""
    folder.script(fails(code=code, policy="manual", remedy="renew it"))
    with pytest.raises(ConnectorError, match="licence expired") as caught:
        run(folder)
    assert (caught.value.code, caught.value.remedy) == (code or "TM-RUN-002", "renew it")
    assert len(folder.requests("open")) == 1


def test_an_error_that_its_connector_calls_passing_is_tried_for_as_long_as_it_takes(folder: CaptureFolder) -> None:
    passing = fails(code="ACME-8", policy="retry")
    folder.script(*[passing] * (MOST_FAILURES + 2), [OPENED, ROW_1, {"checkpoint": {}}])
    run(folder)
    assert folder.ids() == [1]


@pytest.mark.parametrize("fields", [{"code": "ACME-7", "policy": "sometimes"}, {"code": "ACME-7"}, {"policy": "retry"}])
def test_an_error_without_a_policy_or_a_code_is_given_up_in_the_end(
    folder: CaptureFolder, fields: dict[str, str]
) -> None:
    folder.script(fails(**fields))
    with pytest.raises(ConnectorError, match="licence expired") as caught:
        run(folder)
    assert caught.value.code == "TM-RUN-010"
    assert len(folder.requests("open")) == MOST_FAILURES


def test_a_connector_that_only_fails_is_given_up(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"stderr": "error: out of luck"}, {"exit": 7}])
    with pytest.raises(ConnectorError) as caught:
        run(folder)
    assert caught.value.code == "TM-RUN-010"
    assert f"{MOST_FAILURES} attempts" in caught.value.message
    assert "error: out of luck" in caught.value.message
    assert len(folder.requests("open")) == MOST_FAILURES


def test_failures_between_which_something_is_committed_do_not_add_up(folder: CaptureFolder) -> None:
    sessions: list[list[Step]] = [
        [OPENED, {"rows": {"first": number, "count": 1}}, {"checkpoint": {"cursor": number}}, {"await": 1}, CRASH]
        for number in range(1, MOST_FAILURES + 3)
    ]
    folder.script(*sessions, [OPENED])
    run(folder)
    assert folder.ids() == list(range(1, MOST_FAILURES + 3))


def test_an_error_that_says_it_passes_is_tried_for_as_long_as_it_takes(folder: CaptureFolder) -> None:
    passing = [error_line("starting up", code="TM-PG-001", policy="retry"), {"exit": 1}]
    folder.script(*[passing] * (MOST_FAILURES + 2), [OPENED, ROW_1, {"checkpoint": {}}])
    run(folder)
    assert folder.ids() == [1]


def test_a_connector_that_ended_well_is_opened_again_unless_it_was_to_catch_up(folder: CaptureFolder) -> None:
    stop = [error_line("enough", policy="manual"), {"exit": 1}]
    once = [OPENED, ROW_1, {"checkpoint": {"cursor": 1}}]
    folder.script(once, [OPENED], stop)
    with pytest.raises(ConnectorError, match="enough"):
        run(folder, until_caught_up=False)
    assert [request["state"] for request in folder.requests("open")] == [{}, {"cursor": 1}, {"cursor": 1}]


def test_an_early_clean_end_is_not_a_success(folder: CaptureFolder) -> None:
    folder.script([], [OPENED, ROW_1], [OPENED, ROW_1, {"checkpoint": {}}])
    display = run(folder)
    assert folder.ids() == [1]
    assert ["before it sent opened" in display.notices[0][1], "without a checkpoint" in display.notices[1][1]] == [
        True,
        True,
    ]


def test_a_log_that_cannot_be_written_is_tried_again(folder: CaptureFolder) -> None:
    class Mending(Recorder):
        """Takes away what stands in the way when it is told of it."""

        def notice(self, level: str, message: str, **fields: Any) -> None:
            super().notice(level, message, **fields)
            obstacle.unlink()

    folder.script([OPENED, ROW_1, {"checkpoint": {"cursor": 1}}])
    obstacle = folder.log_path / "data" / "public"
    obstacle.parent.mkdir(parents=True)
    obstacle.symlink_to("/proc")  # where nobody can write
    display = run(folder, display=Mending())
    assert folder.ids() == [1]
    assert len(display.notices) == 1
    assert "cannot write" in display.notices[0][1]


def test_a_store_that_is_away_is_waited_for(folder: CaptureFolder, s3: S3Server) -> None:
    away: list[bool] = []
    codes: list[str] = []

    def choose(*_: str) -> Fault:
        return Fault.UNAVAILABLE if away else Fault.NONE

    class Waiting(Recorder):
        """Has the store away after the first commit, until it was told three times."""

        def committed(self, commit: Commit, seconds: float) -> None:
            super().committed(commit, seconds)
            if commit.state.updated == {"cursor": 1}:
                away.append(True)

        def notice(self, level: str, message: str, **fields: Any) -> None:
            super().notice(level, message, **fields)
            codes.append(str(fields["code"]))
            if len(codes) == 3:
                away.clear()

    folder.script(
        [
            OPENED,
            ROW_1,
            {"checkpoint": {"cursor": 1}},
            {"await": 1},
            ROW_2,
            {"checkpoint": {"cursor": 2}},
            {"await": 2},
        ],
        [OPENED, ROW_2, {"checkpoint": {"cursor": 2}}, {"await": 1}],
    )
    with http_faults(s3.endpoint, choose) as proxy:
        place = opened(s3.place().place, replace(s3.settings, endpoint=proxy.address), timedelta(seconds=0.5))
        with Interruption() as interruption, OwnedLog(place, "shop", folder.state) as log:
            Supervisor(
                prepared(folder), log, AT_ONCE, interruption, Waiting(), until_caught_up=True, first_delay_seconds=0.01
            ).run()
        kept = ChangeLog(place)
        assert [event["id"] for event in events(kept, "public/t")] == [1, 2]
        assert kept.summary().state == {"cursor": 2}
    assert codes == ["TM-LOG-008", "TM-LOG-017", "TM-LOG-017"]


def test_a_log_that_another_writer_took_ends_it(folder: CaptureFolder) -> None:
    folder.script([OPENED, ROW_1, {"checkpoint": {"cursor": 1}}, {"await": 1}, {"await": 2}])
    display = Recorder()
    with Interruption() as interruption, OwnedLog(folder.log_store, "shop", folder.state) as log:
        supervisor = Supervisor(prepared(folder), log, AT_ONCE, interruption, display, until_caught_up=True)
        # As a writer on another machine would: the next commit's number is taken.
        taken = folder.log_path / "commits" / "00000000000000000001.json"
        taken.write_bytes((folder.log_path / "commits" / "00000000000000000000.json").read_bytes())
        with pytest.raises(ChangeLogError) as caught:
            supervisor.run()
    assert caught.value.code == "TM-LOG-007"
    assert folder.requests("acknowledge") == []


DEPARTS: list[Step] = [
    *[OPENED, ANNOUNCE, schema(c=TEXT), BEGIN, captured(id=1, c="a"), COMPLETE, checkpoint(1)],
    *[schema(c=DAY), captured(id=2, c="2026-01-31"), checkpoint(2)],
]
"""A session that ends at once after a table's events cannot be read with those before."""


def test_a_connector_that_ended_before_it_was_asked_to_read_a_table_again_is_opened_again(
    folder: CaptureFolder,
) -> None:
    again: list[Step] = [OPENED, ANNOUNCE, {"await_commands": 1}, BEGIN, captured(id=3, c="2026-01-31"), COMPLETE]
    folder.script(DEPARTS, [*again, checkpoint(3)])
    run(folder)
    assert [(number, whole is not None) for number, _, whole in generations(folder)] == [(2, True)]
    assert len(folder.requests("open")) == 2


def test_a_connector_is_asked_to_read_a_table_again_before_its_events_are_acknowledged(folder: CaptureFolder) -> None:
    """It may end once they are."""
    again: list[Step] = [OPENED, ANNOUNCE, {"await_commands": 1}, BEGIN, captured(id=3, c="2026-01-31"), COMPLETE]
    folder.script([*DEPARTS[:7], {"await": 1}, *DEPARTS[7:], {"await": 2}], [*again, checkpoint(3)])
    run(folder)
    assert folder.requests("control")[0]["pid"] == folder.requests("open")[0]["pid"]


def test_a_connector_that_never_reads_the_table_again_is_not_opened_forever(folder: CaptureFolder) -> None:
    folder.script(DEPARTS, [OPENED, ANNOUNCE])
    with pytest.raises(ConnectorError, match=r"TM-RUN-020: .* has not read public\.t again"):
        run(folder)
    assert len(folder.requests("open")) == 1 + MOST_FAILURES
    assert [number for number, _, _ in generations(folder)] == [1]
