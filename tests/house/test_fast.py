"""What ``make test-fast`` leaves out is there, by the names that tests/fast.py has for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fast import ROOMS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_there(room: str) -> None:
    assert (ROOT / room).is_dir()
