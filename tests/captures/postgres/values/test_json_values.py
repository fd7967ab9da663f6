"""json and jsonb at their limits: what parsers of JSON take goes through to the letter, the rest is a precise error."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.postgres.both_ways import BothWays
from tests.captures.postgres.captured_table import captured, columns
from tidemark.captures.postgres.values import json_values
from tidemark.captures.tables.bad_values import BadValue
from tidemark.protocol.codec import split_captured
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.postgres import Database

ESCAPES = st.sampled_from(
    [r"\ud800", r"\uDBff", r"\udc00", r"\uDFFF", r"\\", r"\u0041", r"\n", r"\ud83d\ude00", "u", "d800", "é", r"\/"]
)


@pytest.fixture
def both(any_database: Database) -> Iterator[BothWays]:
    ways = BothWays(any_database)
    with ways.session:
        yield ways


@given(st.lists(ESCAPES, max_size=8).map("".join))
def test_half_a_surrogate_pair_is_found_wherever_parsers_would(inside: str) -> None:
    text = f'["{inside}"]'
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        with pytest.raises(BadValue):
            json_values.json(text)
    else:
        assert json_values.json(text) == text


def test_half_a_surrogate_pair_is_an_error_that_finds_its_row(both: BothWays) -> None:
    both.execute('CREATE TABLE public.t (id int PRIMARY KEY, "the j" json[])')
    texts = [r'"\ud83d\ude00 \\u"', r'{"a": "x\ud800y"}', r'"\uDC00"', "7", r'"\ud83d\ud83d\ude00"']
    for number, text in enumerate(texts):
        both.execute("INSERT INTO public.t VALUES (%s, ARRAY[%s::json])", number, text)
    for read in (lambda: both.chunk("t"), both.log):
        with pytest.raises(SourceError, match=r"TM-CAP-020.*public\.t: column the j") as raised:
            read()
        assert "ud800" not in str(raised.value).replace("such as \\ud800", "")
        remedy = raised.value.remedy
        assert "exclude" in remedy
        statement = re.search(r"SELECT .*?;", remedy)
        assert statement is not None
        assert [row[0] for row in both.session.execute(statement[0])] == [1, 2, 4]


@pytest.mark.parametrize("kind", ["json", "jsonb", "jsonb[]"])
def test_nesting(both: BothWays, kind: str) -> None:
    cast = "ARRAY[%s::jsonb]" if kind == "jsonb[]" else f"%s::{kind}"
    both.execute(f"CREATE TABLE public.t (id int PRIMARY KEY, j {kind})")
    insert = f"INSERT INTO public.t VALUES (%s, {cast})"
    both.execute(insert, 1, '{"a": ' * 250 + "[" * 250 + "]" * 250 + "}" * 250)
    both.execute(insert, 2, '["' + "[{" * 2000 + '", []]')
    (deep, wide), _ = both.chunk("t")
    assert sorted(event.lines for event in both.log()) == sorted([deep, wide])
    assert split_captured(deep) and split_captured(wide)  # as the runtime reads them
    both.execute(insert, 3, "[" * 2000 + "]" * 2000)
    for read in (lambda: both.chunk("t"), both.log):
        with pytest.raises(SourceError, match=r"TM-CAP-020.*public\.t: column j: .* deeper than 500"):
            read()


def test_numbers_beyond_doubles(any_database: Database) -> None:
    with any_database.connect() as session:
        session.execute("CREATE TABLE t (id int PRIMARY KEY, j json, b jsonb)")
        with captured(any_database, "public", "t") as table:
            session.execute("INSERT INTO t VALUES (1, '[1e400, -0, 1.10, 1E-999]', '[1e300, 12345678901234567890.10]')")
            (row,) = table.chunks().values()
            assert [columns(line) for line in table.log()] == [row]
    written = b'{"id":1,"j":[1e400, -0, 1.10, 1E-999],"b":[1' + b"0" * 300 + b", 12345678901234567890.10]}"
    assert row == written
