"""``make test-fast``: what needs no server but one PostgreSQL, no Spark, and none of the tests that take long.

What it leaves out is of the same rooms as what it runs, and ``make test`` runs all.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

_MARKERS = ("slow", "heavy", "spark", "docker")

_SERVERS = {"database", "any_database", "each_database", "engine", "postgres", "any_postgres"}
"""Fixtures of tests that need the server."""

_CASES = 3
"""Of a test with more parameters than these that needs the server: as tests are shuffled, other ones each run."""

_OTHERS = ("mariadb", "mysql", "oldest")
"""How fixtures and parameters begin that stand for other servers."""


def is_left_out(item: pytest.Item) -> bool:
    """Whether ``make test-fast`` is to do without a test."""
    spec = getattr(item, "callspec", None)
    named = [*getattr(item, "fixturenames", ()), *(spec.params.values() if spec else ())]
    return any(item.get_closest_marker(name) for name in _MARKERS) or any(
        name.startswith(_OTHERS) for name in named if isinstance(name, str)
    )


def kept(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """What ``make test-fast`` runs: the same in every process of a run."""
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not is_left_out(item):
            by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for cases in by_test.values() for item in (cases[:_CASES] if _needs_server(cases[0]) else cases)]


def _needs_server(item: pytest.Item) -> bool:
    return not _SERVERS.isdisjoint(getattr(item, "fixturenames", ()))
