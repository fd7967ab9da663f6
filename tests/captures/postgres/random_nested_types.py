"""Random types that are made of others: arrays, composites, domains, enums, ranges, and those of extensions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from tests.captures.postgres.random_types import (
    BUILT_IN,
    TEXT,
    LiteralOf,
    RandomType,
    Value,
    leaf,
    moment_ranges,
    quote,
    string_back,
)


def _name(kind: str, declared: str) -> str:
    """A name that stands for what is declared: the same type is made once, in whichever example it comes."""
    return f"made.{kind}_{zlib.crc32(declared.encode()):08x}"


@dataclass(frozen=True)
class Elements:
    """An array: values nested as deep as there are lower bounds."""

    nested: list[Value]
    lower: tuple[int, ...]


def array_of(element: RandomType, dimensions: int, *, any_bounds: bool) -> RandomType:
    """Arrays of so many dimensions; with lower bounds of any kind no key can have them."""
    dimensions = 1 if element.listed else dimensions

    def nested(lengths: Sequence[int]) -> st.SearchStrategy[list[Value]]:
        inner = st.none() | element.values if len(lengths) == 1 else nested(lengths[1:])
        return st.lists(inner, min_size=lengths[0], max_size=lengths[0])

    def arrays(shape: list[tuple[int, int]]) -> st.SearchStrategy[Elements]:
        lower = tuple(low for _, low in shape)
        return nested([length for length, _ in shape]).map(lambda values: Elements(values, lower))

    extent = st.tuples(st.integers(1, 2), st.integers(-3, 3) if any_bounds else st.just(1))
    shapes = st.lists(extent, min_size=dimensions, max_size=dimensions)
    return RandomType(
        element.name + "[]" * dimensions,
        st.just(Elements([], ())) | shapes.flatmap(arrays),
        lambda raw: None if raw == b"null" else _array_back(raw, element),
        lambda value: _bounds(value) + _array_text(value.nested, len(value.lower), element.text, element.delimiter),
        lambda value: _array_text(value.nested, len(value.lower), element.plain, element.delimiter),
        element.makes,
        element.orders and not any_bounds,
        listed=True,
    )


def _bounds(value: Elements) -> str:
    if not value.lower:
        return ""
    bounds, level = "", value.nested
    for low in value.lower:
        bounds += f"[{low}:{low + len(level) - 1}]"
        level = level[0] if isinstance(level[0], list) else []
    return bounds + "="


def _array_text(nested: list[Value], depth: int, text: LiteralOf, delimiter: str) -> str:
    if depth > 1:
        parts = [_array_text(part, depth - 1, text, delimiter) for part in nested]
    else:
        parts = ["NULL" if value is None else quote(text(value)) for value in nested]
    return "{" + delimiter.join(parts) + "}"


def _array_back(raw: bytes, element: RandomType) -> str:
    parts = []
    for part in map(bytes, msgspec.json.decode(raw, type=list[Raw])):
        if part[:1] == b"[" and not element.listed:
            parts.append(_array_back(part, element))
        else:
            text = element.back(part)
            parts.append("NULL" if text is None else quote(text))
    return "{" + element.delimiter.join(parts) + "}"


def composite_of(fields: dict[str, RandomType]) -> RandomType:
    """A row type, also without fields and with names of any kind."""
    types = list(fields.values())
    declared = ", ".join(f"{identifier(field)} {type_.name}" for field, type_ in fields.items())
    name = _name("composite", declared)

    def text_by(literals: Sequence[LiteralOf]) -> LiteralOf:
        def text(values: Sequence[Value]) -> str:
            parts = ["" if v is None else quote(literal(v)) for v, literal in zip(values, literals, strict=True)]
            return "(" + ",".join(parts) + ")"

        return text

    def back(raw: bytes) -> str | None:
        members = msgspec.json.decode(raw, type=dict[str, Raw] | None)
        if members is None:
            return None
        assert list(members) == list(fields)
        texts = [type_.back(bytes(raw)) for type_, raw in zip(types, members.values(), strict=True)]
        return "(" + ",".join("" if text is None else quote(text) for text in texts) + ")"

    return RandomType(
        name,
        st.tuples(*(st.none() | type_.values for type_ in types)),
        back,
        text_by([type_.text for type_ in types]),
        text_by([type_.plain for type_ in types]),
        (*_makes(types), f"CREATE TYPE {name} AS ({declared})"),
        bool(types) and all(type_.orders for type_ in types),
    )


def domain_of(base: RandomType) -> RandomType:
    """A domain; of an array too, which makes arrays of arrays."""
    name = _name("domain", base.name)
    return replace(base, name=name, makes=(*base.makes, f"CREATE DOMAIN {name} AS {base.name}"), delimiter=",")


def enum_of(labels: list[str]) -> RandomType:
    listed = ", ".join("'" + label.replace("'", "''") + "'" for label in labels)
    name = _name("enum", listed)
    return replace(leaf(name, st.sampled_from(labels), orders=True), makes=(f"CREATE TYPE {name} AS ENUM ({listed})",))


def range_of(bound: RandomType, temporal: bool, many: bool) -> RandomType:
    """A range type, or its multirange, over a type that can be ordered. One bound each: their order is the server's."""
    name, multirange = _name("range", bound.name), _name("multirange", bound.name)

    def text_by(literal: LiteralOf) -> LiteralOf:
        def text(value: tuple[str, Value]) -> str:
            written = value[0].format(quote(literal(value[1])))
            return f"{{{written}}}" if many else written

        return text

    back: Callable[[bytes], str | None] = moment_ranges if temporal else string_back
    return RandomType(
        multirange if many else name,
        st.tuples(st.sampled_from(["[{},)", "({},)", "(,{}]", "[{0},{0}]"]), bound.values),
        back,
        text_by(bound.text),
        # A document has the text of such a range, in which an array's lower bounds stand.
        text_by(bound.text),
        (
            *bound.makes,
            f"CREATE TYPE {name} AS RANGE (subtype = {bound.name}, multirange_type_name = {multirange})",
        ),
        orders=True,
    )


def _makes(types: Sequence[RandomType]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(statement for type_ in types for statement in type_.makes))


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _short(text: str) -> bool:
    return 0 < len(text.encode()) < 64


NAMES = TEXT.filter(_short) | st.sampled_from(["é" * 31, "x" * 63, "Upper", "select", "a.b", "{0}", "%s", "$1", "\\"])
"""Names of columns and fields: anything of up to 63 bytes."""

_TEMPORAL = [type_ for type_ in BUILT_IN if type_.name in ("date", "timestamp", "timestamptz")]
_OTHER_BOUNDS = [type_ for type_ in BUILT_IN if type_.name in ("text", "interval", "bytea", "numeric", "float8")]


def _nested(inner: st.SearchStrategy[RandomType]) -> st.SearchStrategy[RandomType]:
    return (
        st.builds(
            array_of,
            inner.filter(lambda type_: not type_.name.endswith("[]")),
            st.integers(1, 3),
            any_bounds=st.booleans(),
        )
        | st.builds(domain_of, inner)
        | st.dictionaries(NAMES, inner, max_size=3).map(composite_of)
    )


def any_type(others: Sequence[RandomType] = ()) -> st.SearchStrategy[RandomType]:
    """Any type; ``others`` are leaves that only some servers have."""
    labels = st.lists(NAMES, min_size=1, max_size=4, unique=True)
    bounds = st.sampled_from(_TEMPORAL)
    ranges = st.builds(range_of, bounds | bounds.map(domain_of), st.just(True), st.booleans())
    ranges |= st.builds(range_of, st.sampled_from(_OTHER_BOUNDS), st.just(False), st.booleans())
    leaves = st.sampled_from([*BUILT_IN, *others]) | st.sampled_from(BUILT_IN)
    made = leaves | labels.map(enum_of) | ranges
    return leaves | st.recursive(made, _nested, max_leaves=4)


_HSTORE_TEXT = TEXT.map(quote)

OF_EXTENSIONS = {
    "citext": [leaf("citext", TEXT, orders=True)],
    "ltree": [leaf("ltree", st.lists(st.sampled_from(["a", "B_1", "9"]), max_size=4).map(".".join), orders=True)],
    "cube": [leaf("cube", st.sampled_from(["(1, 2),(3, 4)", "(0)"]))],
    "hstore": [
        RandomType(
            "hstore",
            st.dictionaries(_HSTORE_TEXT, st.just("NULL") | _HSTORE_TEXT, max_size=3).map(
                lambda pairs: ",".join(f"{key}=>{value}" for key, value in pairs.items())
            ),
            lambda raw: None if raw == b"null" else _hstore_text(raw),
        )
    ],
    "vector": [
        leaf("vector(2)", st.sampled_from(["[1,-2.5]", "[0,1e-30]"]), lambda raw: _null(raw.decode()), listed=True),
        leaf("sparsevec(5)", st.sampled_from(["{1:1.5,3:2}/5", "{}/5"])),
    ],
}
"""Types that extensions bring, by the extension's name."""


def _null(text: str) -> str | None:
    return None if text == "null" else text


def _hstore_text(raw: bytes) -> str:
    pairs = msgspec.json.decode(raw, type=dict[str, str | None])
    return ",".join(f"{quote(key)}=>{'NULL' if value is None else quote(value)}" for key, value in pairs.items())
