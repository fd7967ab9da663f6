"""When verifications begin, of a capture file that asks for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.verification_record import (
    FILE,
    FIRST_SECONDS,
    LAST_SECONDS,
    Lacking,
    VerificationRecord,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86_400.0
LACKING = {"public.items": Lacking(why="TM-SPK-013: no master", in_spark=True)}


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_the_first_begins_at_once_and_the_next_when_its_time_has_come() -> None:
    assert VerificationRecord().due(NOW, DAY)
    done = VerificationRecord().after(NOW, DAY, {}, all_tables=True)
    assert [done.due(later(seconds), DAY) for seconds in (0, DAY - 1, DAY)] == [False, False, True]
    assert not done.retry_due(later(DAY), DAY)


def test_what_is_lacking_is_tried_again_after_ever_longer_pauses_and_all_tables_in_their_time() -> None:
    record, now, pauses = VerificationRecord().after(NOW, DAY, LACKING, all_tables=True), NOW, []
    while now < later(DAY):
        assert record.again is not None
        assert not record.retry_due(record.again - timedelta(seconds=1), DAY)
        assert record.retry_due(record.again, DAY)
        pauses.append((record.again - now).total_seconds())
        now = record.again
        if record.due(now, DAY):
            break
        record = record.after(now, DAY, LACKING, all_tables=False)
    assert pauses[:4] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS, 8 * FIRST_SECONDS]
    assert max(pauses) == LAST_SECONDS
    assert record.due(now, DAY)
    assert now >= later(DAY)
    assert record.since == NOW
    equal = record.after(now, DAY, {}, all_tables=False)
    assert equal == VerificationRecord(ended=NOW)


def test_a_pause_is_no_longer_than_the_time_between_two() -> None:
    record = VerificationRecord()
    for _ in range(9):
        record = record.after_failure(NOW, 1800, "it does not run")
    assert not record.due(later(1799), 1800)
    assert record.due(later(1800), 1800)


def test_it_is_late_once_the_next_should_have_been() -> None:
    record = VerificationRecord().after_failure(NOW, DAY, "it does not run")
    assert not record.as_json(DAY, later(DAY))["late"]
    assert record.as_json(DAY, later(DAY + 1))["late"]


def test_a_clock_that_was_set_back_does_not_put_it_off() -> None:
    done = VerificationRecord().after(later(1e9), DAY, LACKING, all_tables=True)
    assert done.due(NOW, DAY)


def test_tables_that_are_not_captured_any_more_are_forgotten() -> None:
    record = VerificationRecord().after(NOW, DAY, LACKING, all_tables=True)
    again = record.after_failure(NOW, DAY, "TM-CFG-004: …", forget=True)
    assert again.lacking == {}
    assert again.again is not None
    assert again.due(again.again, DAY)


def test_it_is_kept_in_the_state_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = StateFolder([tmp_path])
    assert VerificationRecord.of(folder) == VerificationRecord()
    record = VerificationRecord().after(NOW, DAY, LACKING, all_tables=True)
    record.save(folder)
    assert VerificationRecord.of(folder) == record
    (tmp_path / FILE).write_text("{")
    assert VerificationRecord.of(folder) == VerificationRecord()
    assert "cannot be read" in caplog.text
    (tmp_path / FILE).write_text('{"ended": "2026-01-01T00:00:00+00:00"}')  # As versions before this one wrote it.
    assert VerificationRecord.of(folder) == VerificationRecord(ended=NOW)
