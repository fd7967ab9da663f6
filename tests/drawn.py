"""Which cases of a test a run takes, of those that are unlikely to fail alone: drawn by the seed of the run.

- Of a case on each version of PostgreSQL, one version.
- Of a case on MariaDB and on MySQL one server, where there are both; with all that its log may say of columns, each of
  these and each server once.
- Of the cases of a test that is marked ``drawn(count)``, so many.
- Of all tests that are marked ``drawn(count, of=name)`` with one name, in whatever file, so many.

``make soak`` takes all, as a run with ``TIDEMARK_TEST_ALL=1`` or without a seed (``-p no:randomly``) does.
``--randomly-seed`` repeats a run. A case that the command line names by itself is not left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random

import pytest

from tests.examples import ALL

_SERVER = "binlog_database"
_ALIKE = ("any_postgres", "metadata", _SERVER)
"""Parameters with values that the same code serves."""

_IN_SUITES = {"postgres": "any_postgres", "oldest_postgres": "any_postgres", "mariadb": _SERVER, "mysql": _SERVER}
"""What they are called there, among other databases: see ``_parameters``."""


def drawn(items: Sequence[pytest.Item], seed: int | None, *, servers: int = 2) -> list[pytest.Item]:
    """What a run takes of what was collected. All that some run leaves out is marked ``drawn``.

    Args:
        items: What was collected.
        seed: Of the run; None takes all.
        servers: How many of MariaDB and MySQL there are: with one, all that runs on it is taken.
    """
    alike = {*_ALIKE} if servers == 2 else {*_ALIKE} - {_SERVER}
    left_out: set[pytest.Item] = set()
    counted = _groups(items, _counted)
    for cases in _groups(items, lambda item: None if alike.isdisjoint(_parameters(item)) else _case(item)):
        halves = _halves(cases)
        if all(halves):
            left_out |= set(halves[_random(seed, cases).randrange(2)])
        for item in cases:
            item.add_marker("drawn")
    for cases in counted:
        (count,) = next(marker.args for marker in cases[0].iter_markers("drawn") if marker.args)
        rest = [item for item in cases if item not in left_out]
        left_out |= set(rest) - set(_random(seed, cases).sample(rest, min(count, len(rest))))
    return [item for item in items if ALL or seed is None or item not in left_out]


def _groups(items: Iterable[pytest.Item], key: Callable[[pytest.Item], Hashable]) -> list[list[pytest.Item]]:
    """The items that have a key, by their keys."""
    found: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (of := key(item)) is not None:
            found[of].append(item)
    return list(found.values())


def _counted(item: pytest.Item) -> Hashable:
    """What so many are drawn of."""
    marker = item.get_closest_marker("drawn")
    return None if marker is None else marker.kwargs.get("of", _test(item))


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _parameters(item: pytest.Item) -> dict[str, object]:
    spec = getattr(item, "callspec", None)
    parameters: dict[str, object] = dict(spec.params) if spec else {}
    for suite in ("engine", "each_database"):
        if (found := _IN_SUITES.get(str(parameters.get(suite)))) is not None:
            parameters[found] = parameters.pop(suite)
    return parameters


def _case(item: pytest.Item) -> Hashable:
    """What it has in common with its like."""
    parameters = _parameters(item)
    # The same objects, as pytest has one of each value.
    others = [id(value) for name, value in parameters.items() if name not in _ALIKE]
    return _test(item), *(name for name in _ALIKE if name in parameters), *others


def _halves(cases: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Of a product of parameters with two values each: both halves have each value of each of them."""
    values = [[str(_parameters(item).get(name)) for name in _ALIKE] for item in cases]
    first = [min(column) for column in zip(*values, strict=True)]
    even: list[pytest.Item] = []
    odd: list[pytest.Item] = []
    for item, row in zip(cases, values, strict=True):
        others = sum(value != smallest for value, smallest in zip(row, first, strict=True))
        (odd if others % 2 else even).append(item)
    return even, odd


def _random(seed: int | None, cases: Sequence[pytest.Item]) -> Random:
    return Random(f"{seed} {min(item.nodeid for item in cases)}")
