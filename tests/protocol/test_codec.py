"""Control messages on the pipe: read leniently, written strictly, and hostile input answered with a code."""

from __future__ import annotations

import json
import re
import traceback
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.documents import OBJECTS, TEXTS, UINT32, VALUES, Json
from tidemark.protocol import messages
from tidemark.protocol.codec import decode_request, decode_response, encode
from tidemark.protocol.envelope import MAX_LINE_BYTES
from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.messages import REQUESTS, RESPONSES, Message

SECRET = "hunter2-5f1c"


def made(kind: type[Message], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    """Messages of a kind; ``st.builds`` would look at the signature, which has the names on the wire."""
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


collections = made(messages.Collection, name=TEXTS, key=st.lists(TEXTS, max_size=3), write_schema=OBJECTS)
bindings = made(
    messages.Binding,
    resource_config=OBJECTS,
    resource_path=st.lists(TEXTS, max_size=3),
    collection=collections,
    backfill=UINT32,
    state_key=TEXTS,
)
captures = made(
    messages.CaptureSpec,
    name=TEXTS,
    connector_type=TEXTS,
    config=OBJECTS,
    bindings=st.lists(bindings, max_size=3),
    interval_seconds=UINT32,
)
ranges = made(messages.KeyRange, key_begin=UINT32, key_end=UINT32, r_clock_begin=UINT32, r_clock_end=UINT32)
requests = st.one_of(
    made(messages.Spec, config=OBJECTS),
    made(messages.Discover, connector_type=TEXTS, config=OBJECTS),
    made(messages.Validate, name=TEXTS, config=OBJECTS, bindings=st.lists(bindings, max_size=2)),
    made(messages.Apply, capture=captures, version=TEXTS, last_capture=st.none() | captures),
    made(messages.Open, capture=captures, version=TEXTS, range=ranges, state=OBJECTS),
    made(messages.Acknowledge, checkpoints=st.integers(1, 2**32 - 1)),
)
discovered = made(
    messages.DiscoveredBinding,
    recommended_name=TEXTS,
    resource_config=OBJECTS,
    document_schema=OBJECTS,
    key=st.lists(TEXTS, max_size=2),
    disable=st.booleans(),
    is_fallback_key=st.booleans(),
)
states = made(messages.ConnectorState, updated=VALUES, merge_patch=st.booleans())
responses = st.one_of(
    made(messages.SpecResponse, config_schema=OBJECTS, resource_config_schema=OBJECTS, documentation_url=TEXTS),
    made(messages.Discovered, bindings=st.lists(discovered, max_size=2)),
    made(
        messages.Validated,
        bindings=st.lists(made(messages.ValidatedBinding, resource_path=st.lists(TEXTS, max_size=2)), max_size=2),
    ),
    made(messages.Applied, action_description=TEXTS, state=st.none() | states),
    made(messages.Opened, explicit_acknowledgements=st.booleans()),
    made(messages.SourcedSchema, binding=UINT32, document_schema=OBJECTS),
    made(messages.Checkpoint, state=st.none() | states),
    made(messages.BackfillBegin, binding=UINT32),
    made(messages.BackfillComplete, binding=UINT32),
    made(messages.VerifyBegin, binding=UINT32, run=UINT32),
    made(messages.VerifyChunk, binding=UINT32, run=UINT32, number=UINT32, rows=UINT32),
    made(messages.VerifyEnd, binding=UINT32, run=UINT32, chunks=UINT32, rows=UINT32, why=st.none() | TEXTS),
)


@given(requests)
def test_a_request_comes_back_as_it_was(request: Message) -> None:
    line = encode(request)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode_request(line) == request


@given(responses)
def test_a_response_comes_back_as_it_was(response: Message) -> None:
    line = encode(response)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode_response(line) == response


JSON_FIELDS = {
    "config",
    "resourceConfig",
    "writeSchema",
    "readSchema",
    "state",
    "configSchema",
    "resourceConfigSchema",
    "documentSchema",
    "updated",
}
"""Fields that the proto calls by a name which ends in ``_json``."""

CHECKPOINT_STATES = {"applied", "checkpoint"}
"""Messages whose field ``state`` is a message of its own."""


def _proto_name(name: str) -> str:
    return re.sub("[A-Z]", lambda capital: "_" + capital[0].lower(), name)


def _proto_names(value: Json, message: str, *, json_names: bool) -> Json:
    """The same message with proto's own field names, which readers of the protocol accept too."""
    if isinstance(value, list):
        return [_proto_names(part, message, json_names=json_names) for part in value]
    if not isinstance(value, dict):
        return value
    renamed = {}
    for name, part in value.items():
        if name in JSON_FIELDS and not (name == "state" and message in CHECKPOINT_STATES):
            renamed[_proto_name(name) + "_json" * json_names] = part  # What is inside belongs to nobody here.
        else:
            renamed[_proto_name(name)] = _proto_names(part, message, json_names=json_names)
    return renamed


def _respelled(line: bytes, *, json_names: bool) -> bytes:
    ((kind, body),) = orjson.loads(line).items()
    return orjson.dumps({kind: _proto_names(body, kind, json_names=json_names), "$internal": {"shard": 1}})


@given(requests, st.booleans())
def test_every_spelling_of_a_requests_fields_is_read(request: Message, json_names: bool) -> None:
    assert decode_request(_respelled(encode(request), json_names=json_names)) == request


@given(responses, st.booleans())
def test_every_spelling_of_a_responses_fields_is_read(response: Message, json_names: bool) -> None:
    assert decode_response(_respelled(encode(response), json_names=json_names)) == response


def test_a_schema_by_the_name_that_connectors_of_the_cdk_give_it() -> None:
    line = b'{"sourcedSchema":{"binding":1,"schema_json":{"type":"object"}}}'
    assert decode_response(line) == messages.SourcedSchema(binding=1, document_schema={"type": "object"})


@pytest.mark.parametrize("body", ["{}", "null", '{"checkpoints":0}', '{"checkpoints":null}'])
def test_an_acknowledgement_without_a_count_is_of_one_checkpoint(body: str) -> None:
    assert decode_request(f'{{"acknowledge":{body}}}'.encode()) == messages.Acknowledge(checkpoints=1)


def test_the_usual_open_request_of_another_runtime() -> None:
    line = b"""{"open":{"capture":{"name":"acme/cap","connectorType":"IMAGE","config":{"host":"db"},"bindings":[
        {"resourceConfig":{"table":"users"},"resourcePath":["public","users"],"stateKey":"public%2Fusers",
         "collection":{"name":"acme/users","key":["/id"],"projections":[{"ptr":"/id"}],"uuidPtr":"/_meta/uuid"}}],
        "shardTemplate":{"id":"x"},"networkPorts":[]},"version":"0011",
        "range":{"keyEnd":4294967295,"rClockEnd":4294967295}}}\n""".replace(b"\n        ", b"")
    request = decode_request(line)
    assert isinstance(request, messages.Open)
    assert request.capture.bindings[0].collection.key == ["/id"]
    assert request.capture.bindings[0].backfill == 0
    assert (request.range.key_begin, request.range.key_end) == (0, 0xFFFFFFFF)
    assert request.state == {}


@pytest.mark.parametrize("kind", ["spec", "discover", "validate"])
@pytest.mark.parametrize("body", ["{}", "null", '{"config":null,"bindings":null,"unknown":{"x":[1]}}'])
def test_zero_values_may_be_left_out_or_null(kind: str, body: str) -> None:
    assert decode_request(f'{{"{kind}":{body}}}'.encode()) == REQUESTS[kind]()


def test_nested_messages_may_be_null() -> None:
    line = b'{"open":{"capture":{"bindings":[{"collection":null,"backfill":null}]},"range":null,"state":null}}'
    assert decode_request(line) == messages.Open(capture=messages.CaptureSpec(bindings=[messages.Binding()]))


@pytest.mark.parametrize("line", [b'{"opened":{}}', b'{"applied":{}}', b'{"discovered":{}}', b'{"checkpoint":{}}'])
def test_responses_with_every_zero_value_left_out(line: bytes) -> None:
    decode_response(line)


FIELDS: dict[str, set[str]] = {
    "spec": {"protocol", "configSchema", "resourceConfigSchema", "documentationUrl", "resourcePathPointers"},
    "discovered": {"bindings"},
    "validated": {"bindings"},
    "applied": {"actionDescription", "state"},
    "opened": {"explicitAcknowledgements"},
    "sourcedSchema": {"binding", "documentSchema"},
    "checkpoint": {"state"},
    "backfillBegin": {"binding"},
    "backfillComplete": {"binding"},
    "verifyBegin": {"binding", "run"},
    "verifyChunk": {"binding", "run", "number", "rows"},
    "verifyEnd": {"binding", "run", "chunks", "rows", "why", "covered"},
}
NESTED: dict[str, set[str]] = {
    "discovered": {
        "recommendedName",
        "resourceConfig",
        "documentSchema",
        "key",
        "disable",
        "resourcePath",
        "isFallbackKey",
    },
    "validated": {"resourcePath"},
}


@given(responses)
def test_nothing_outside_the_protocol_is_written(response: Message) -> None:
    """A runtime of the protocol refuses a response with a field it does not know."""
    ((kind, body),) = json.loads(encode(response)).items()
    assert body.keys() <= FIELDS[kind]
    for binding in body.get("bindings", []):
        assert binding.keys() <= NESTED[kind]
    assert body.get("state", {}).keys() <= {"updated", "mergePatch"}
    assert None not in body.values()


def test_a_null_in_a_state_patch_is_written_because_it_removes() -> None:
    state = messages.ConnectorState(updated={"bindings": {"public%2Fold": None}}, merge_patch=True)
    assert json.loads(encode(messages.Checkpoint(state=state))) == {
        "checkpoint": {"state": {"updated": {"bindings": {"public%2Fold": None}}, "mergePatch": True}}
    }


DEEP = b"[" * 100_000
HOSTILE: list[tuple[bytes, str]] = [
    (b"", "TM-PRO-001"),
    (b"\n", "TM-PRO-001"),
    (b"spec\n", "TM-PRO-001"),
    (b'{"spec":{}', "TM-PRO-001"),
    (b'{"spec":{}}{"spec":{}}', "TM-PRO-001"),
    (b"{'spec':{}}", "TM-PRO-001"),
    (b'{"spec":{"config":{"a":NaN}}}', "TM-PRO-001"),
    (b'{"spec":{"config":{"a":"\xff"}}}', "TM-PRO-001"),
    (b'{"spec":{"config":{"a":"\\ud800"}}}', "TM-PRO-001"),
    (b'{"spec":{}}\x00', "TM-PRO-001"),
    (b"\xef\xbb\xbf" + b'{"spec":{}}', "TM-PRO-001"),
    (DEEP, "TM-PRO-001"),
    (b'{"spec":{"config":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_002, "TM-PRO-001"),
    (b"null", "TM-PRO-002"),
    (b"[]", "TM-PRO-002"),
    (b"1e400", "TM-PRO-001"),
    (b"{}", "TM-PRO-002"),
    (b'{"spec":{},"open":{}}', "TM-PRO-002"),
    (b'{"Spec":{}}', "TM-PRO-002"),
    (b'{"\\u0000":{}}', "TM-PRO-002"),
    (b'{"' + b"x" * 1_000_000 + b'":{}}', "TM-PRO-002"),
    (b'{"spec":[]}', "TM-PRO-003"),
    (b'{"spec":"x"}', "TM-PRO-003"),
    (b'{"spec":{"config":[]}}', "TM-PRO-003"),
    (b'{"open":{}}', "TM-PRO-003"),
    (b'{"open":null}', "TM-PRO-003"),
    (b'{"open":{"capture":{"bindings":{}}}}', "TM-PRO-003"),
    (b'{"open":{"capture":{"bindings":[null]}}}', "TM-PRO-003"),
    (b'{"open":{"capture":{"bindings":[{"backfill":-1}]}}}', "TM-PRO-003"),
    (b'{"open":{"capture":{"bindings":[{"resourcePath":["public",5]}]}}}', "TM-PRO-003"),
    (b'{"acknowledge":{"checkpoints":false}}', "TM-PRO-003"),
    (b'{"acknowledge":{"checkpoints":-1}}', "TM-PRO-003"),
    (b'{"acknowledge":{"checkpoints":true}}', "TM-PRO-003"),
    (b'{"acknowledge":{"checkpoints":1.5}}', "TM-PRO-003"),
    (b'{"acknowledge":{"checkpoints":"1"}}', "TM-PRO-003"),
    (b'{"acknowledge":{"checkpoints":1e400}}', "TM-PRO-001"),
    (b'{"acknowledge":{"checkpoints":' + b"9" * 30 + b"}}", "TM-PRO-003"),
]


@pytest.mark.parametrize(("line", "code"), HOSTILE, ids=[repr(line[:40]) for line, _ in HOSTILE])
def test_hostile_requests_are_answered_with_a_code(line: bytes, code: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_request(line)
    assert refused.value.code == code
    assert len(refused.value.message) < 1000


def test_a_request_over_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_request(b"{" * (MAX_LINE_BYTES + 1))
    assert refused.value.code == "TM-PRO-005"


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_code_or_understood(line: bytes) -> None:
    for decode in (decode_request, decode_response):
        try:
            decode(line)
        except ProtocolError as refused:
            assert refused.code in {"TM-PRO-001", "TM-PRO-002", "TM-PRO-003"}


def _replaced(value: Any, path: list[int], by: Json) -> Json:
    """``value`` with the part that ``path`` leads to replaced."""
    if not path or not isinstance(value, dict | list) or not value:
        return by
    if isinstance(value, list):
        at = path[0] % len(value)
        return [_replaced(part, path[1:], by) if n == at else part for n, part in enumerate(value)]
    at = path[0] % len(value)
    return {k: _replaced(part, path[1:], by) if n == at else part for n, (k, part) in enumerate(value.items())}


WRONG = st.sampled_from(
    [SECRET, [SECRET], {SECRET[:0]: SECRET}, [[SECRET]], True, -1, 1.5, 2**63, [{"resourcePath": SECRET}]]
)


@given(requests | responses, st.lists(st.integers(0, 9), min_size=1, max_size=6), WRONG)
def test_a_wrong_part_is_named_and_its_value_is_not(message: Message, path: list[int], wrong: Json) -> None:
    body = json.loads(encode(message))
    line = orjson.dumps({kind: _replaced(part, path, wrong) for kind, part in body.items()})
    for decode in (decode_request, decode_response):
        try:
            decode(line)
        except ProtocolError as refused:
            assert refused.code in {"TM-PRO-002", "TM-PRO-003"}
            assert SECRET not in refused.remedy + "".join(traceback.format_exception(refused))


def test_a_wrong_field_is_named_by_its_place() -> None:
    line = b'{"open":{"capture":{"bindings":[{"stateKey":"a"},{"stateKey":5}]}}}'
    with pytest.raises(ProtocolError, match=r"open\.capture\.bindings\.1\.stateKey"):
        decode_request(line)


def test_every_kind_of_message_is_listed_once() -> None:
    assert list(REQUESTS) == ["spec", "discover", "validate", "apply", "open", "acknowledge", "control"]
    assert list(RESPONSES) == list(FIELDS)
