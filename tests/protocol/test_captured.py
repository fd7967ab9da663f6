"""``captured`` lines: written by joining bytes, read by cutting them apart, exactly."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.protocol.documents import DIGITS, OBJECTS, TEXTS, UINT32, Digits, Json, exact, spell, values
from tidemark.protocol.codec import CAPTURED_SUFFIX, captured_prefix, decode_response, split_captured
from tidemark.protocol.envelope import MAX_LINE_BYTES
from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.text.nesting import MESSAGE_NESTING

EXACT_OBJECTS = st.dictionaries(TEXTS, values(DIGITS.map(Digits)), max_size=4)
SPACES = st.sampled_from(["", " ", "\t ", " \r"])


@given(UINT32, OBJECTS)
def test_what_a_writer_joins_a_reader_cuts_apart(binding: int, doc: Json) -> None:
    document = orjson.dumps(doc)
    assert split_captured(captured_prefix(binding) + document + CAPTURED_SUFFIX) == (binding, document)


@given(
    UINT32,
    EXACT_OBJECTS,
    SPACES,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["doc", "doc_json"]),
    st.booleans(),
)
@example(0, {"x": Digits("123456789012345678901234567890.10")}, " ", True, True, True, True, "doc", False)
def test_every_spelling_keeps_the_document_byte_for_byte(
    binding: int,
    doc: Json,
    space: str,
    ascii_only: bool,
    doc_first: bool,
    omit_zero: bool,
    newline: bool,
    name: str,
    internal: bool,
) -> None:
    document = spell(doc, space, ascii_only)
    members = [f'"binding"{space}:{space}{binding}', f'"{name}"{space}:{space}{document}']
    if omit_zero and binding == 0:
        members.pop(0)
    if doc_first:
        members.reverse()
    inside = f"{space},{space}".join(members)
    beside = f',"$internal":{{"a":[{space}]}}' if internal else ""
    line = f'{space}{{{space}"captured"{space}:{space}{{{space}{inside}{space}}}{space}{beside}}}'
    found = split_captured((line + "\n" * newline).encode())
    assert found == (binding, document.encode())
    assert exact(found[1]) == exact(document)


@pytest.mark.parametrize(
    "doc",
    [
        {"text": '}}\n{"captured":{"binding":7,"doc":{"a":1}}}'},
        {"doc": {"doc": {"captured": {"binding": 9}}}},
        {"captured": {"doc": {}}},
        {"": {"}}": "}}"}, "\\": '\\"}}'},
        {},
    ],
)
def test_a_document_that_holds_the_protocols_own_text(doc: Json) -> None:
    document = json.dumps(doc).encode()
    assert split_captured(captured_prefix(3) + document + CAPTURED_SUFFIX) == (3, document)


def test_an_omitted_or_null_binding_is_the_first() -> None:
    assert split_captured(b'{"captured":{"doc":{"a":1}}}\n') == (0, b'{"a":1}')
    assert split_captured(b'{"captured":{"binding":null,"doc":{"a":1}}}\n') == (0, b'{"a":1}')


@pytest.mark.parametrize(
    "line",
    [
        b'{"checkpoint":{}}\n',
        b'{"checkpoint":{"state":{"updated":{"captured":{"doc":{}}}}}}\n',
        b'{"sourcedSchema":{"documentSchema":{"properties":{"captured":{"type":"string"}}}}}\n',
        b'{"opened":{}}\n',
    ],
)
def test_another_message_is_left_to_decode_response(line: bytes) -> None:
    assert split_captured(line) is None
    decode_response(line)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"captured":{"binding":0,"doc":{"a":1},"extra":{"b":2}}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":0,"doc":{"a":1},"binding":{"b":2}}}\n', "TM-PRO-003"),
        (b'{"captured":{"doc":{"a":1}},"checkpoint":{}}\n', "TM-PRO-002"),
        (b'{"checkpoint":{},"captured":{"doc":{"a":1}}}\n', "TM-PRO-002"),
        (b'{"captured":{"binding":-1,"doc":{}}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":4294967296,"doc":{}}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":99999999999999999999999,"doc":{}}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":true,"doc":{}}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":1.5,"doc":{}}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":"0","doc":{}}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":0}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":0,"doc":[{}]}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":0,"doc":"{}"}}\n', "TM-PRO-003"),
        (b'{"captured":{"binding":0,"doc":null}}\n', "TM-PRO-003"),
        (b'{"captured":null}\n', "TM-PRO-003"),
        (b'{"captured":[]}\n', "TM-PRO-003"),
        (b'["captured"]\n', "TM-PRO-002"),
        (b'"captured"\n', "TM-PRO-002"),
        (b'{"captured":{"binding":0,"doc":{"a":1}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":1}}}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":1}}}{}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":1,}}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":01}}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":NaN}}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":"\xff\xfe"}}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":"\xed\xa0\x80"}}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":"\x00"}}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":{"a":"\\x41"}}}\n', "TM-PRO-001"),
        (b'{"captured":{"binding":0,"doc":\x00{}}}\n', "TM-PRO-001"),
        (b'{"captured":{"doc":' + b'{"a":' * 3000 + b"1" + b"}" * 3002 + b"\n", "TM-PRO-001"),
    ],
)
def test_what_is_not_a_captured_line_is_refused(line: bytes, code: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        split_captured(line)
    assert refused.value.code == code


@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_a_line_is_nested_no_deeper_than_any_parser_takes(opening: bytes, closing: bytes) -> None:
    def line(levels: int) -> bytes:
        inner = levels - 3  # The line, captured and doc stand around it.
        text = b'"\\"' + b"[{" * 1000 + b'"'
        return captured_prefix(0) + b'{"j":' + opening * inner + text + closing * inner + b"}" + CAPTURED_SUFFIX

    assert split_captured(line(MESSAGE_NESTING)) is not None
    with pytest.raises(ProtocolError, match="nested deeper than 600 levels") as refused:
        split_captured(line(MESSAGE_NESTING + 1))
    assert refused.value.code == "TM-PRO-001"


def test_a_line_over_the_limit_is_refused() -> None:
    line = captured_prefix(0) + b'{"a":"' + b"x" * MAX_LINE_BYTES + b'"}' + CAPTURED_SUFFIX
    with pytest.raises(ProtocolError) as refused:
        split_captured(line)
    assert refused.value.code == "TM-PRO-005"


@given(OBJECTS, st.data())
def test_a_damaged_line_is_refused_or_still_valid(doc: Json, data: st.DataObject) -> None:
    """One byte replaced, removed or added: refused, or JSON still, and then cut as a JSON parser would cut it."""
    line = bytearray(captured_prefix(1) + orjson.dumps(doc) + CAPTURED_SUFFIX)
    at = data.draw(st.integers(0, len(line) - 1))
    piece = data.draw(st.sampled_from([b"", *(bytes([n]) for n in (*b'{}[]",:\\0eu \n\t', 0x00, 0x80, 0xC3, 0xFF))]))
    line[at : at + data.draw(st.integers(0, 1))] = piece
    try:
        found = split_captured(bytes(line))
    except ProtocolError as refused:
        assert refused.code in {"TM-PRO-001", "TM-PRO-002", "TM-PRO-003"}
        return
    if found is None:
        with pytest.raises(ProtocolError):
            decode_response(bytes(line))
    else:
        body = json.loads(line)
        assert list(body) == ["captured"] and body["captured"].keys() <= {"binding", "doc"}
        assert found[0] == body["captured"].get("binding", 0)
        assert exact(found[1]) == exact(bytes(line))["captured"]["doc"]


@given(OBJECTS.filter(bool))
def test_a_truncated_line_is_refused(doc: Json) -> None:
    line = captured_prefix(0) + orjson.dumps(doc) + CAPTURED_SUFFIX
    for cut in (len(line) // 2, len(line) - 3, len(line) - 2):
        with pytest.raises(ProtocolError) as refused:
            split_captured(line[:cut])
        assert refused.value.code == "TM-PRO-001"
