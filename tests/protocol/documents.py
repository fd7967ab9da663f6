"""JSON values and spellings of them, for property tests of the protocol."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

Json = Any

UINT32 = st.integers(0, 2**32 - 1)

# Text that could be taken for the protocol's own bytes; lone surrogates are not text.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "}}",
        '}}\n{"captured":{"doc":',
        '"doc":{',
        '{"captured"',
        "captured",
        "\\",
        '"',
        "\x00",
        "\u2028",
        "é",
        "🜁",
        "null",
    ]
)


def values(numbers: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Any JSON value whose numbers come from ``numbers``."""
    return st.recursive(
        st.none() | st.booleans() | numbers | TEXTS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )


VALUES = values(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False))
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)


def _digits(whole: int, fraction: int | None, exponent: int | None) -> str:
    return f"{whole}{'' if fraction is None else f'.{fraction}'}{'' if exponent is None else f'e{exponent:+}'}"


DIGITS = st.builds(
    _digits, st.integers(-(10**40), 10**40), st.none() | st.integers(0, 10**30), st.none() | st.integers(-400, 400)
)
"""Numbers as text, many of which no float and no 64-bit integer holds."""


class Digits(float):
    """A number that is written with exactly these digits."""

    def __new__(cls, digits: str) -> Digits:
        number = super().__new__(cls, 0)
        number.digits = digits
        return number

    digits: str

    def __repr__(self) -> str:
        return self.digits


def spell(value: Json, space: str, ascii_only: bool) -> str:
    """Writes JSON with ``space`` around every separator, every text escaped to ASCII or none."""
    match value:
        case dict():
            members = (
                f"{spell(k, space, ascii_only)}{space}:{space}{spell(v, space, ascii_only)}" for k, v in value.items()
            )
            return f"{{{space}{f'{space},{space}'.join(members)}{space}}}"
        case list():
            return f"[{space}{f'{space},{space}'.join(spell(part, space, ascii_only) for part in value)}{space}]"
        case Digits():
            return value.digits
        case _:
            return json.dumps(value, ensure_ascii=ascii_only)


def exact(text: str | bytes) -> Json:
    """Parses JSON with every number as its digits, so that equality means the same text of numbers."""
    return json.loads(text, parse_int=str, parse_float=str)
