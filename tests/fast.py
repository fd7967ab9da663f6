"""``make test-fast``: what needs no server but one PostgreSQL, no Spark, and none of the tests that take long."""

from __future__ import annotations

import os

import pytest

FAST = os.environ.get("TIDEMARK_TEST_FAST") == "1"

_SLOW = ("slow", "spark", "docker")
"""Markers."""

_SLOW_ROOMS = (
    "tests/end_to_end/",
    "tests/workload/",
    "tests/servers/",
    "tests/mutants/",
    "tests/backfill/test_mutants.py",
    "tests/house/test_again.py",
    "tests/house/test_warm_command.py",
    "tests/runtime/changelog/test_memory.py",
    "tests/runtime/commands/test_output.py",
    "tests/runtime/test_foreign_connectors.py",
    "tests/conformance/test_set_aside.py",
    "tests/captures/engine/test_reconnection.py",
    "tests/captures/process/test_memory.py",
    "tests/captures/postgres/server/",
    "tests/captures/postgres/tables_that_change/",
)
"""Each test of these starts servers or several processes, fills memory, tries a rule thousands of times, or waits for
what a server does at times."""

_OTHERS = ("mariadb", "mysql", "oldest")
"""How fixtures and parameters begin that stand for other servers."""


def is_left_out(item: pytest.Item) -> bool:
    """Whether ``make test-fast`` is to do without a test."""
    spec = getattr(item, "callspec", None)
    named = [*getattr(item, "fixturenames", ()), *(spec.params.values() if spec else ())]
    return (
        any(item.get_closest_marker(name) for name in _SLOW)
        or item.nodeid.startswith(_SLOW_ROOMS)
        or any(name.startswith(_OTHERS) for name in named if isinstance(name, str))
    )
