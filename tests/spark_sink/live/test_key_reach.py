from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.spark_sink.formats.data_files import KeyBounds
from tidemark.spark_sink.live.key_reach import ChangedBoxes, ChangedKeys

VALUES = st.integers(0, 5)
KEYS = st.lists(st.tuples(VALUES, VALUES), max_size=6)
Keys = list[tuple[int, int]]
NullableKeys = list[tuple[int | None, int | None]]

WITH_NULLS = st.lists(st.tuples(VALUES | st.none(), VALUES | st.none()), max_size=6)


def box(keys: Keys) -> KeyBounds:
    """The bounds of a file, or a segment, with these keys."""
    columns = list(zip(*keys, strict=True))
    return KeyBounds(tuple(map(min, columns)), tuple(map(max, columns)))


@given(KEYS, KEYS.filter(bool))
def test_known_keys_hit_a_file_if_one_of_them_is_in_its_box(changed: Keys, file: Keys) -> None:
    bounds = box(file)
    assert bounds.low and bounds.high
    inside = [all(a <= v <= b for a, v, b in zip(bounds.low, key, bounds.high, strict=True)) for key in changed]

    assert ChangedKeys(changed).may_hit(bounds) is any(inside)


@given(WITH_NULLS, KEYS.filter(bool))
def test_no_key_in_a_file_is_overlooked(changed: NullableKeys, file: Keys) -> None:
    if set(changed) & set(file):
        assert ChangedKeys(changed).may_hit(box(file))


@given(KEYS.filter(bool), KEYS.filter(bool))
def test_boxes_that_share_a_key_hit(changed: Keys, file: Keys) -> None:
    if set(changed) & set(file):
        assert ChangedBoxes([box([(9, 9)]), box(changed)]).may_hit(box(file))


def test_apart_in_any_column_is_apart() -> None:
    file = box([(1, 5), (3, 5)])

    assert not ChangedBoxes([box([(2, 6)])]).may_hit(file)
    assert ChangedBoxes([box([(2, 6)]), box([(3, 4), (5, 6)])]).may_hit(file)
    assert not ChangedKeys([(2, 6), (0, 5)]).may_hit(file)


def test_bounds_that_are_not_known_may_hold_anything() -> None:
    unknown = KeyBounds(None, None)

    assert ChangedKeys([(None, 1)]).may_hit(unknown)
    assert not ChangedKeys([]).may_hit(unknown)
    assert ChangedBoxes([unknown]).may_hit(box([(1, 1)]))
    assert not ChangedKeys([(None, 1)]).may_hit(box([(1, 1)]))


def test_very_many_keys_near_a_file_are_taken_for_a_hit() -> None:
    keys = [(1, n) for n in range(2000)]

    assert ChangedKeys(keys).may_hit(KeyBounds((1, 3000), (1, 4000)))
    assert not ChangedKeys(keys).may_hit(KeyBounds((2, 0), (2, 4000)))
