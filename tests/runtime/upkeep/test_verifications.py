"""The verifications that a capture file asks for, where they cannot even begin."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidemark.protocol.capture_file.verify_entry import VerifyEntry
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.verification_record import FILE
from tidemark.runtime.status.words import verification_in_words
from tidemark.runtime.upkeep import verifications
from tidemark.runtime.upkeep.verifications import Schedule
from tidemark.testing.deadline import wait_until


@pytest.mark.parametrize("written", [True, False], ids=["written", "a record that cannot be written"])
def test_a_command_that_cannot_be_started_is_told_and_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    monkeypatch.setattr(verifications, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    if not written:
        (tmp_path / FILE).mkdir()
    entry, told = VerifyEntry.model_validate({"every": "1d"}), list[dict[str, Any]]()
    schedule = Schedule(
        tmp_path / "shop.yaml", entry, StateFolder([tmp_path]), lambda: True, lambda *_, **fields: told.append(fields)
    )
    with schedule:
        record = wait_until(lambda: known if (known := schedule.record()).failed else None, 20, "it is known")
    now = datetime.now(UTC)
    assert record.tries == 1 and not record.due(now, entry.every)
    first, _ = verification_in_words(record.as_json(entry.every, now), now)
    assert first.startswith(
        "not verified: the capture: tidemark verify cannot be started: No such file or directory; tried again in "
    )
    assert [fields["code"] for fields in told] == ([] if written else ["TM-LOG-008"])
