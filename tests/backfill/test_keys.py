from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.backfill.keys import Key, TouchedKeys, join_key, key_from_texts, key_texts
from tidemark.protocol.errors import SourceError

_texts = st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])), min_size=1, max_size=3)


@settings(derandomize=True, database=None)
@given(_texts)
def test_key_texts_and_back(texts: list[str]) -> None:
    key = join_key(text.encode() for text in texts)
    assert key_texts(key) == texts
    assert key_from_texts(texts) == key


def test_empty_text_is_a_key() -> None:
    assert key_texts(join_key([b"", b""])) == ["", ""]


def test_nul_in_a_key_is_refused() -> None:
    with pytest.raises(SourceError) as caught:
        join_key([b"a\x00b", b"c"])
    assert caught.value.code == "TM-BKF-002"


def _touched(events: Iterable[tuple[Key, bool, bool]], limit: int = 100) -> TouchedKeys:
    touched = TouchedKeys(limit)
    for key, partial, inserted in events:
        touched.add(key, partial, inserted)
    return touched


FULL, PARTIAL, MOVED = (b"k", False, False), (b"k", True, False), (b"k", True, True)


@pytest.mark.parametrize(
    ("events", "partial", "incomplete"),
    [
        ([FULL], False, False),
        ([PARTIAL], True, False),
        ([PARTIAL, FULL], False, False),
        ([FULL, PARTIAL], False, False),
        ([MOVED], True, True),
        ([FULL, MOVED], True, True),
        ([MOVED, PARTIAL], True, True),
        ([MOVED, FULL], False, False),
        ([MOVED, FULL, PARTIAL], False, False),
    ],
)
def test_what_a_consumer_knows(events: list[tuple[Key, bool, bool]], partial: bool, incomplete: bool) -> None:
    touched = _touched(events)
    assert b"k" in touched
    assert touched.partial(b"k") is partial
    assert (touched.incomplete() == [b"k"]) is incomplete
    assert b"other" not in touched


_event = st.tuples(st.sampled_from([b"1", b"2", b"3"]), st.booleans(), st.booleans())


def _seen(touched: TouchedKeys) -> tuple[object, ...]:
    keys = [(key in touched, touched.partial(key)) for key in (b"1", b"2", b"3")]
    return touched.everything, touched.incomplete_forgotten, len(touched), keys, sorted(touched.incomplete())


@settings(derandomize=True, database=None)
@given(st.lists(_event), st.lists(_event))
def test_merge_is_what_one_after_the_other_gives(
    first: list[tuple[Key, bool, bool]], second: list[tuple[Key, bool, bool]]
) -> None:
    merged = _touched(first)
    merged.merge(_touched(second))
    assert _seen(merged) == _seen(_touched(first + second))


@settings(derandomize=True, database=None, max_examples=500)
@given(st.lists(st.sampled_from(["insert", "full", "partial", "delete", "move here"]), max_size=8))
def test_partial_says_what_a_consumer_holds_that_began_without_the_row(changes: list[str]) -> None:
    touched = TouchedKeys()
    exists = True  # In a version that the consumer was never given.
    columns: set[str] = set()
    for change in changes:
        if exists == (change in ("insert", "move here")):
            continue  # Impossible.
        exists = change != "delete"
        if change == "delete":
            columns = set()
        elif change in ("insert", "full"):
            columns = {"small", "large"}
        else:
            columns |= {"small"}
        touched.add(b"k", change in ("partial", "move here"), change in ("insert", "move here"))
    if b"k" in touched:
        whole = columns == ({"small", "large"} if exists else set())
        assert touched.partial(b"k") is not whole


def test_too_many_keys_are_everything() -> None:
    touched = _touched([(b"1", False, False), (b"2", True, False)], limit=2)
    touched.add(b"2", False)
    assert (touched.everything, len(touched)) == (False, 2)
    touched.add(b"3", False)
    assert touched.everything
    assert len(touched) == 0
    assert b"never seen" in touched
    assert touched.partial(b"1")
    assert not touched.isdisjoint([b"1"])
    touched.add(b"1", False)
    assert len(touched) == 0
    assert not touched.incomplete_forgotten


@pytest.mark.parametrize("moved", [0, 1, 2, 3])
def test_overflow_remembers_that_it_forgot_incomplete_keys(moved: int) -> None:
    events = [(b"%d" % number, number == moved, number == moved) for number in range(4)]
    assert _touched(events, limit=2).incomplete_forgotten
    merged = _touched(events[:2], limit=2)
    merged.merge(_touched(events[2:], limit=2))
    assert merged.everything and merged.incomplete_forgotten


def test_truncate_leaves_no_row_to_be_incomplete() -> None:
    touched = _touched([(b"1", True, True)])
    touched.truncate()
    assert touched.everything
    assert not touched.incomplete() and not touched.incomplete_forgotten
    touched.add(b"1", True, True)
    assert touched.incomplete_forgotten


def test_merging_a_truncate_touches_everything() -> None:
    truncated = TouchedKeys()
    truncated.truncate()
    touched = _touched([FULL])
    touched.merge(truncated)
    assert touched.everything


def test_isdisjoint() -> None:
    touched = _touched([FULL])
    assert touched.isdisjoint([b"a", b"b"])
    assert not touched.isdisjoint([b"a", b"k"])
    assert TouchedKeys().isdisjoint([b"a"])


def test_partial_keys_are_those_that_no_event_gave_whole() -> None:
    touched = _touched([(b"1", True, False), (b"2", True, True), (b"3", False, False), (b"3", True, False)])
    assert touched.partials() == [b"1", b"2"]
    assert touched.incomplete() == [b"2"]


@pytest.mark.parametrize("partial", [0, 1, 2, 3])
def test_overflow_remembers_that_it_forgot_partial_keys(partial: int) -> None:
    events = [(b"%d" % number, number == partial, False) for number in range(4)]
    touched = _touched(events, limit=2)
    assert touched.partial_forgotten and not touched.incomplete_forgotten
    merged = _touched(events[:2], limit=2)
    merged.merge(_touched(events[2:], limit=2))
    assert merged.partial_forgotten
    merged.truncate()
    assert not merged.partial_forgotten


def test_only_a_truncate_truncates() -> None:
    touched = _touched([FULL, (b"1", False, False)], limit=1)
    assert touched.everything and not touched.truncated
    truncated = TouchedKeys()
    truncated.truncate()
    touched.merge(truncated)
    assert touched.truncated


def test_keys_become_incomplete_by_what_followed() -> None:
    touched = _touched([(b"1", False, False), (b"2", True, False)])
    assert touched.with_incomplete([b"3"]) is touched
    amended = touched.with_incomplete([b"1", b"3"])
    assert (amended.incomplete(), len(amended)) == ([b"1"], 2)
    assert not touched.incomplete()
