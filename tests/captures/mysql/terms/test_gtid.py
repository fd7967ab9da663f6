"""GTID sets and positions."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.mysql.terms.gtid import MariadbGtids, MysqlGtids
from tidemark.captures.mysql.terms.position import LogPosition, PreparedPlace, parse_position
from tidemark.protocol.errors import SourceError

ONE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TWO = "4e11fa47-71ca-11e1-9e33-c80aa9429562"

sources = st.sampled_from([ONE, TWO, f"{ONE}:tag", f"{ONE}:other"])
numbers = st.integers(1, 40)


@given(st.lists(st.tuples(sources, numbers)))
def test_a_set_has_what_was_added_in_any_order(added: list[tuple[str, int]]) -> None:
    gtids = MysqlGtids()
    for source, number in added:
        gtids.add(f"{source}:{number}")
    for source in (ONE, TWO, f"{ONE}:tag", f"{ONE}:other"):
        for number in range(1, 42):
            assert (f"{source}:{number}" in gtids) == ((source, number) in added)
    again = MysqlGtids(str(gtids))
    assert str(again) == str(gtids) and again.encode() == gtids.encode()
    assert again.contains_all(gtids) and gtids.contains_all(again)
    assert gtids.contains_all(MysqlGtids()) and MysqlGtids().contains_all(gtids) == (not added)


@given(st.lists(st.tuples(sources, numbers), min_size=1, max_size=40), st.data())
def test_a_set_without_one_of_its_members(added: list[tuple[str, int]], data: st.DataObject) -> None:
    members = {f"{source}:{number}" for source, number in added}
    gtids_of = MysqlGtids(",".join(members))
    gone = data.draw(st.sampled_from(sorted(members)))
    rest = MysqlGtids(gtids_of.without(gone))
    assert {gtid for gtid in members if gtid in rest} == members - {gone}
    assert gone in gtids_of
    rest.add(gone)
    assert str(rest) == str(gtids_of)


def test_texts_of_the_manual() -> None:
    text = f"{ONE}:1-3:11:47-49,\n{TWO.upper()}:5"
    assert str(MysqlGtids(text)) == f"{ONE}:1-3:11:47-49,{TWO}:5"
    assert str(MysqlGtids(f"{ONE}:1-3:3-7:8:tag:5:6-9")) == f"{ONE}:1-8:tag:5-9"
    for wrong in ("x", f"{ONE}:0", f"{ONE}:a:b:-", f"{ONE}:1-x"):
        with pytest.raises(SourceError) as caught:
            MysqlGtids(wrong)
        assert caught.value.code == "TM-MY-055"


def test_the_binary_form() -> None:
    plain = MysqlGtids(f"{ONE}:1-3:7").encode()
    assert plain == struct.pack("<Q", 1) + UUID(ONE).bytes + struct.pack("<QQQQQ", 2, 1, 4, 7, 8)
    tagged = MysqlGtids(f"{ONE}:1:tag:2").encode()
    assert tagged[0] == tagged[7] == 1 and int.from_bytes(tagged[1:7], "little") == 2
    assert tagged[8:] == (
        UUID(ONE).bytes
        + b"\x00"
        + struct.pack("<QQQ", 1, 1, 2)
        + UUID(ONE).bytes
        + b"\x06tag"
        + struct.pack("<QQQ", 1, 2, 3)
    )


def test_positions_of_mariadb() -> None:
    gtids = MariadbGtids("2-1-5, 0-3-7")
    gtids.add("0-4-8")
    assert str(gtids) == "0-4-8,2-1-5"
    assert "0-9-8" in gtids and "0-4-9" not in gtids and "7-1-1" not in gtids
    with pytest.raises(SourceError):
        MariadbGtids("0-1")


xids = st.builds(lambda a, b, n: f"x'{a.hex()}',x'{b.hex()}',{n}", st.binary(), st.binary(), st.integers(-1, 9))


@given(
    st.sampled_from(["binlog.000001", "my-bin.999999", "a b.1234567"]),
    st.integers(4, 1 << 39),
    st.sampled_from(["", "0-1-5,2-3-4", f"{ONE}:1-5"]),
    st.dictionaries(
        xids,
        st.builds(
            PreparedPlace,
            st.just("binlog.000001"),
            st.integers(4, 1 << 39),
            st.sampled_from(["", "0-1-5", f"{ONE}:tag:5"]),
            st.sampled_from(["", "0-1-4,2-3-4"]),
        ),
    ),
)
def test_positions_are_texts(file: str, offset: int, gtids: str, prepared: dict[str, PreparedPlace]) -> None:
    place = LogPosition(file, offset, gtids, prepared)
    assert parse_position(str(place)) == place
    elsewhere = parse_position(str(place.elsewhere()))
    assert elsewhere.order == 0 and elsewhere.gtids == gtids
    assert [(p.file, p.gtid) for p in elsewhere.prepared.values()] == [("", p.gtid) for p in prepared.values()]


def test_positions_grow_with_the_log() -> None:
    places = [
        LogPosition("", 0),
        LogPosition("b.000009", 1 << 33),
        LogPosition("b.000010", 4),
        LogPosition("b.1000000", 4),
    ]
    assert [place.order for place in places] == sorted(place.order for place in places)
    for wrong in ("", "b.000001", "b.1:x;", "b.1:4;;x'00'@b.1:4"):
        with pytest.raises(SourceError):
            parse_position(wrong)
    with pytest.raises(SourceError):
        _ = LogPosition("binlog", 4).order
