"""What ``make test-fast`` leaves out is there, by the names that tests/fast.py has for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fast import HEAVY_TESTS, SLOW_ROOMS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("room", SLOW_ROOMS)
def test_a_room_is_there(room: str) -> None:
    assert (ROOT / room).is_dir() if room.endswith("/") else (ROOT / room).is_file()


@pytest.mark.parametrize("test", HEAVY_TESTS)
def test_a_test_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text()
