"""Sizes in configurations."""

from __future__ import annotations

import pytest

from tidemark.protocol.text.sizes import parse_size

UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", ["3{}", "3 {}", " 3{} "])
def test_units(unit: str, form: str) -> None:
    assert parse_size(form.format(unit)) == 3 * UNITS[unit]


def test_a_fraction_of_a_unit() -> None:
    assert parse_size("1.5MB") == 1_500_000
    assert parse_size("0.5KiB") == 512


@pytest.mark.parametrize("text", ["", "10", "MB", "-1MB", "1,5MB", "10mb", "10Mb", "10Mbit", "10MB/s", "1MB 2MB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="a size is a number with a unit"):
        parse_size(text)
