"""docs/ holds what ``tests.house.protocol_documents`` writes, and the schemas say what the codec does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.house import protocol_documents
from tests.protocol.documents import Json
from tidemark.protocol.messages import REQUESTS, RESPONSES, Opened


def test_the_generated_documents_are_in_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert protocol_documents.main(["--check"]) == 0, capsys.readouterr().err


def test_check_names_what_is_missing_stale_or_left_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    assert protocol_documents.main([], docs) == 0
    assert protocol_documents.main(["--check"], docs) == 0
    (docs / "errors.md").write_text("old")
    (docs / "protocol" / "request-open.json").unlink()
    (docs / "protocol" / "request-gone.json").write_text("{}")
    assert protocol_documents.main(["--check"], docs) == 1
    assert {line.split()[0] for line in capsys.readouterr().err.splitlines()} == {
        "docs/errors.md",
        "docs/protocol/request-open.json",
        "docs/protocol/request-gone.json",
    }
    assert protocol_documents.main([], docs) == 0
    assert protocol_documents.main(["--check"], docs) == 0


def _load(name: str) -> Json:
    return json.loads(protocol_documents.documents()[f"protocol/{name}.json"])


def test_every_message_has_its_schema() -> None:
    schemas = {Path(path).stem for path in protocol_documents.documents() if path.startswith("protocol/")}
    expected = {f"request-{kind}" for kind in REQUESTS}
    expected |= {f"response-{kind}" for kind in [*RESPONSES, "captured", "capturedBatch", "verified"]}
    assert schemas == expected | {"state"}


@pytest.mark.parametrize("kind", RESPONSES)
def test_a_responses_schema_has_the_fields_the_codec_writes_and_no_other(kind: str) -> None:
    body = _load(f"response-{kind}")["properties"][kind]
    assert body["additionalProperties"] is False
    assert set(body["properties"]) == {*RESPONSES[kind].__struct_encode_fields__}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_requests_schema_stays_open_to_unknown_fields(kind: str) -> None:
    schema = _load(f"request-{kind}")
    parts = [schema["properties"][kind], *schema.get("$defs", {}).values()]
    assert all("additionalProperties" not in part for part in parts)


def test_a_reference_leads_to_a_definition_of_the_same_file() -> None:
    for path, content in protocol_documents.documents().items():
        if path.endswith(".json"):
            schema = json.loads(content)
            found = set(_references(schema))
            assert found == {f"#/$defs/{name}" for name in schema.get("$defs", {})}, path


def _references(value: Json) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for part in value.values() for found in _references(part)]
    return [found for part in value for found in _references(part)] if isinstance(value, list) else []


def test_an_envelope_has_the_kind_as_its_only_key() -> None:
    schema = _load("response-opened")
    assert schema["required"] == [Opened.kind]
    assert schema["additionalProperties"] is False
