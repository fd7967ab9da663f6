"""What warm processes are forked from has imported what it is said to."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.warm_process import PRELOADED


@pytest.mark.parametrize("name", PRELOADED)
def test_what_is_preloaded_is_there(name: str) -> None:
    assert find_spec(name) is not None
