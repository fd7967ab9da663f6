"""Readers that a log knows: what they say is kept, whatever they are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.consumers import (
    ALIVE_SECONDS,
    WRITTEN_SECONDS,
    Registration,
    consumers,
    forget,
    register,
)
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store.local import DirectoryStore

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)


def error_of(call: Callable[[], object]) -> ChangeLogError:
    with pytest.raises(ChangeLogError) as caught:
        call()
    return caught.value


def positions(store: DirectoryStore) -> list[tuple[str, int]]:
    return [(one.name, one.position) for one in consumers(store)]


@pytest.mark.parametrize("names", [["a", "A", "ä", "a/b", "a.b", "..", "", "x" * 500, "x" * 499 + "y", "%", "%-"]])
def test_each_has_a_file_of_its_own(tmp_path: Path, names: list[str]) -> None:
    store = DirectoryStore(tmp_path)
    for place, name in enumerate(names):
        register(store, name, place)
    assert positions(store) == [(name, place) for place, name in enumerate(names)]
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / layout.CONSUMERS}
    assert [forget(store, name) for name in [*names[1:], *names[1:]]] == [True] * 10 + [False] * 10
    assert positions(store) == [(names[0], 0)]


@given(names=st.lists(NAMES, unique=True, max_size=4))
def test_names_are_kept(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    store = DirectoryStore(tmp_path_factory.mktemp("log"))
    for name in names:
        register(store, name, 7)
    assert sorted(name for name, _ in positions(store)) == sorted(names)


def test_the_one_that_is_furthest_behind_is_first(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    assert consumers(store) == []
    for name, position in (("b", 5), ("c", 3), ("a", 5), ("c", 9)):
        register(store, name, position)
    assert positions(store) == [("a", 5), ("b", 5), ("c", 9)]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    register(store, "nightly", 5)
    (path,) = (tmp_path / layout.CONSUMERS).iterdir()
    path.write_text('{"name": "nightly"')
    error = error_of(lambda: consumers(store))
    assert error.code == "TM-LOG-002"
    assert str(path) in error.message and str(path) in error.remedy
    register(store, "nightly", 6)
    assert positions(store) == [("nightly", 6)]


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / layout.CONSUMERS).write_text("")  # Root may write any folder, and this is none.
    error = error_of(lambda: register(DirectoryStore(tmp_path), "nightly", 1))
    assert (error.code, "consumer nightly" in error.message) == ("TM-LOG-019", True)


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    store, now = DirectoryStore(tmp_path), [0.0]
    (tmp_path / layout.CONSUMERS).write_text("")
    known = Registration(store, "nightly", clock=lambda: now[0])
    assert error_of(lambda: known.note(5)).code == "TM-LOG-019"
    known.note(6)  # Not at each step.
    (tmp_path / layout.CONSUMERS).unlink()
    now[0] += WRITTEN_SECONDS
    known.note(6)
    assert positions(store) == [("nightly", 6)]


def test_a_consumer_does_not_write_at_each_step(tmp_path: Path) -> None:
    store, now = DirectoryStore(tmp_path), [100.0]
    known = Registration(store, "nightly", clock=lambda: now[0])
    known.close()
    assert consumers(store) == [], "nothing is known of it"
    known.note(5)
    known.note(6)
    assert positions(store) == [("nightly", 5)]
    now[0] += WRITTEN_SECONDS
    known.note(7)
    known.note(8)
    assert positions(store) == [("nightly", 7)]
    known.close()
    (before,) = consumers(store)
    assert before.position == 8
    now[0] += ALIVE_SECONDS - 1
    known.note(8)
    assert consumers(store) == [before]
    now[0] += 1
    known.note(8)
    (after,) = consumers(store)
    assert after.updated > before.updated
    known.note(2)
    known.close()
    assert positions(store) == [("nightly", 2)], "it has begun again"


STEPS = st.tuples(st.integers(0, 50), st.floats(0, 40))


@given(steps=st.lists(STEPS, min_size=1, max_size=20))
def test_the_log_never_knows_more(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, float]]) -> None:
    store, now = DirectoryStore(tmp_path_factory.mktemp("log")), [0.0]
    known, position = Registration(store, "nightly", clock=lambda: now[0]), 0
    for step, seconds in steps:
        position += step
        now[0] += seconds
        known.note(position)
        assert positions(store)[0][1] <= position
    known.close()
    assert positions(store) == [("nightly", position)]
