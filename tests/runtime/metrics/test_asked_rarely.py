"""The log is not asked each time that a monitor asks."""

from __future__ import annotations

import pytest

from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.metrics.asked_rarely import KNOWN_SECONDS, AskedRarely


def test_what_was_found_last_is_told_for_half_a_minute() -> None:
    now, looks = [100.0], iter([1, 2])
    asked = AskedRarely(lambda: next(looks), 0, lambda: now[0])
    assert [asked(), asked()] == [1, 1]
    now[0] += KNOWN_SECONDS - 0.1
    assert asked() == 1
    now[0] += 0.1
    assert asked() == 2


@pytest.mark.parametrize("error", [ChangeLogError("TM-LOG-001", "there is none yet"), OSError("not now")])
def test_a_log_that_cannot_be_read_changes_nothing(error: Exception) -> None:
    found: list[int | Exception] = [error]

    def look() -> int:
        if isinstance(found[-1], Exception):
            raise found[-1]
        return found[-1]

    asked = AskedRarely(look, 0)
    assert asked() == 0
    found.append(7)
    assert asked() == 7
