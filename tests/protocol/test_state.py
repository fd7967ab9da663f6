"""RFC 7396 merge patches, and the patch that leads from one state to another."""

from __future__ import annotations

import copy

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.protocol.documents import OBJECTS, VALUES, Json
from tidemark.protocol.state import difference, merge_patch

# Few names and few values, so that two states have much in common.
scalars = st.sampled_from([True, False, 0, 1, 1.0, -0.5, "", "a"])
states = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        scalars | st.lists(st.none() | scalars, max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
        ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
        ('{"a":"b"}', '{"a":null}', "{}"),
        ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
        ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
        ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
        ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
        ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
        ('["a","b"]', '["c","d"]', '["c","d"]'),
        ('{"a":"b"}', '["c"]', '["c"]'),
        ('{"a":"foo"}', "null", "null"),
        ('{"a":"foo"}', '"bar"', '"bar"'),
        ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
        ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
        ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
    ],
)
def test_the_examples_of_rfc_7396_appendix_a(target: str, patch: str, result: str) -> None:
    assert merge_patch(orjson.loads(target), orjson.loads(patch)) == orjson.loads(result)


@given(VALUES, VALUES)
def test_a_patch_changes_neither_the_target_nor_itself(target: Json, patch: Json) -> None:
    before = copy.deepcopy((target, patch))
    merge_patch(target, patch)
    assert (target, patch) == before


@given(VALUES, VALUES)
def test_a_patch_applied_twice_does_what_it_does_once(target: Json, patch: Json) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@given(OBJECTS)
def test_an_empty_patch_changes_nothing(target: Json) -> None:
    assert merge_patch(target, {}) == target


@given(states, states)
@example({"a": 1}, {"a": True})
@example({"a": [1]}, {"a": [1.0]})
@example({"a": {"b": 0}}, {"a": {"b": False}})
@example({"a": None}, {"a": {"b": 1}})
def test_the_difference_leads_from_the_old_state_to_the_new(old: Json, new: Json) -> None:
    patch = difference(old, new)
    assert patch is not None
    reached = merge_patch(old, patch)
    assert orjson.dumps(reached, option=orjson.OPT_SORT_KEYS) == orjson.dumps(new, option=orjson.OPT_SORT_KEYS)


@given(states)
def test_between_equal_states_there_is_no_difference(state: Json) -> None:
    assert difference(state, copy.deepcopy(state)) == {}


@given(states, states)
def test_the_difference_holds_only_what_changed(old: Json, new: Json) -> None:
    patch = difference(old, {**old, **new})
    assert patch is not None
    assert patch.keys() <= new.keys()


@pytest.mark.parametrize(
    ("old", "new"),
    [({}, {"a": None}), ({"a": {"b": 1}}, {"a": {"b": None}}), ({"a": 1}, []), ([], {}), ({}, None), (None, {})],
)
def test_where_no_patch_leads_there_is_none(old: Json, new: Json) -> None:
    assert difference(old, new) is None


def test_a_null_inside_an_array_is_no_obstacle() -> None:
    assert difference({"a": [1]}, {"a": [None, {"b": None}]}) == {"a": [None, {"b": None}]}
