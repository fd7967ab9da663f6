"""Writes the documents that are generated from the code: JSON Schemas and the page of errors.

::

    python -m tests.house.protocol_documents          write them
    python -m tests.house.protocol_documents --check  write nothing; exit 1 and name each file that is out of date
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from tests.house.error_codes import CODES
from tests.house.files import ROOT
from tidemark.protocol.batches import BatchLine
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.protocol.changelog.models import Commit, Consumer, LogHeader, Summary, TableSchema
from tidemark.protocol.error_codes import ErrorCode, Policy
from tidemark.protocol.messages import MAX_UINT32, REQUESTS, RESPONSES, ConnectorState, JsonObject, Message

DOCS = ROOT / "docs"

ROOMS: dict[str, str] = {
    "CFG": "The capture file",
    "PG": "PostgreSQL",
    "MY": "MySQL and MariaDB",
    "CAP": "The capture engine",
    "BKF": "Backfills",
    "RUN": "The runtime",
    "LOG": "The change log",
    "SPK": "Spark",
    "PRO": "The capture protocol",
    "DEMO": "The demo",
}
"""The middle part of a code, and the heading its codes stand under, in the order of ``docs/errors.md``."""

POLICIES: dict[Policy, str] = {
    Policy.RETRY: "The runtime retries by itself, with growing pauses.",
    Policy.MANUAL: "If it ends the capture, the runtime does not try again: it waits for a person.",
}


class _Schema(GenerateJsonSchema):
    """Without the titles that pydantic makes from field names: they repeat the name in a worse spelling."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SOURCE: JsonObject = {
    "type": "object",
    "description": "Where the event comes from. Other members depend on the database.",
    "properties": {
        "schema": {"type": "string"},
        "table": {"type": "string"},
        "ts_ms": {"type": "integer", "description": "When the source committed, in milliseconds since 1970, UTC."},
        "snapshot": {"type": "boolean", "description": "True if a backfill read the row."},
        "loc": {
            "type": "array",
            "items": {"type": "integer"},
            "description": (
                "Postgres: the end of the previous commit, the LSNs of the event and of its commit, its number "
                "in the record."
            ),
        },
        "cursor": {"type": "string", "description": "MySQL: file:position:row."},
        "txid": {"type": ["integer", "string"], "description": "The transaction, as the source names it."},
    },
}

_CAPTURED: JsonObject = {
    "type": "object",
    "description": "One change event of one binding. Pending until the next checkpoint.",
    "properties": {
        "binding": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_UINT32,
            "default": 0,
            "description": "Index into open.capture.bindings.",
        },
        "doc": {
            "type": "object",
            "description": "The row, columns at the top, and _meta. Its columns are the binding's sourcedSchema.",
            "properties": {
                "_meta": {
                    "type": "object",
                    "properties": {
                        "op": {
                            "enum": ["c", "u", "d", "t"],
                            "description": "Created (also a backfilled row), updated, deleted, table truncated.",
                        },
                        "source": _SOURCE,
                        "before": {"type": "object", "description": "The part of the old row that the log has."},
                        "unchanged": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": (
                                "Columns that the log did not carry. They are absent from the document: keep "
                                "their value."
                            ),
                        },
                    },
                    "required": ["op", "source"],
                }
            },
        },
    },
    "required": ["doc"],
    "additionalProperties": False,
}


def documents() -> dict[str, bytes]:
    """Every generated file's content by its path below ``docs/``."""
    files = {f"protocol/request-{kind}.json": _request(model) for kind, model in REQUESTS.items()}
    files |= {f"protocol/response-{kind}.json": _response(model) for kind, model in RESPONSES.items()}
    files["protocol/response-captured.json"] = _envelope("captured", _CAPTURED)
    files["protocol/response-verified.json"] = _envelope("verified", _CAPTURED)
    files["protocol/response-capturedBatch.json"] = _batch_line()
    files["protocol/state.json"] = {"$schema": _DIALECT, **_message(ConnectorState)}
    files["changelog/header.json"] = _file(LogHeader)
    files["changelog/commit.json"] = _file(Commit)
    files["changelog/compacted-commit.json"] = _file(CompactedCommit)
    files["changelog/summary.json"] = _file(Summary)
    files["changelog/table-schema.json"] = _file(TableSchema)
    files["changelog/consumer.json"] = _file(Consumer)
    written = {
        path: orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        for path, schema in files.items()
    }
    written["errors.md"] = "".join(_errors()).encode()
    return written


def _batch_line() -> JsonObject:
    schema: JsonObject = msgspec.json.schema(BatchLine)
    for part in schema["$defs"].values():
        part["description"] = part["description"].partition("\n")[0]
    return schema


def _request(model: type[Message]) -> JsonObject:
    # A connector ignores fields it does not know, so a request's schema stays open.
    return _envelope(model.kind, _message(model))


def _response(model: type[Message]) -> JsonObject:
    # A runtime refuses fields it does not know, so a response's schema is closed, in its parts too.
    schema = _message(model)
    for part in (schema, *schema.get("$defs", {}).values()):
        part["additionalProperties"] = False
    return _envelope(model.kind, schema)


def _envelope(kind: str, body: JsonObject) -> JsonObject:
    """The schema of a whole line: an object with the message's kind as its only key."""
    parts = body.pop("$defs", None)
    line: dict[str, Any] = {
        "$schema": _DIALECT,
        "title": kind,
        "type": "object",
        "properties": {kind: body},
        "required": [kind],
        "additionalProperties": False,
    }
    return line | ({"$defs": parts} if parts else {})


def _message(model: type[Message]) -> JsonObject:
    """The schema of a message's fields, with those of its parts."""
    (schema,), parts = msgspec.json.schema_components([model], ref_template="#/$defs/{name}")
    own: JsonObject = parts.pop(schema["$ref"].rpartition("/")[2])
    for part in (own, *parts.values()):
        part["description"] = inspect.cleandoc(part["description"])
    return own | ({"$defs": parts} if parts else {})


def _schema(model: type[BaseModel]) -> JsonObject:
    return model.model_json_schema(schema_generator=_Schema)


def _file(model: type[BaseModel]) -> JsonObject:
    """The schema of a whole file."""
    return {"$schema": _DIALECT, **_schema(model)}


def _errors() -> Iterator[str]:
    yield "# Errors\n\n"
    yield "<!-- Generated from the error_codes of each room by `python -m tests.house.protocol_documents`. -->\n\n"
    yield "Every error that tidemark raises has one of these codes. A code may be retired, but is never reused. "
    yield "The error itself says what happened and where, and often gives a more exact remedy than this page can.\n"
    rooms: dict[str, list[ErrorCode]] = {room: [] for room in ROOMS}
    for row in sorted(CODES.values(), key=lambda row: row.code):
        rooms[row.code.split("-")[1]].append(row)
    for room, rows in rooms.items():
        if rows:
            yield f"\n## {ROOMS[room]}\n"
        for row in rows:
            # The heading is the code alone, so that its anchor is the code in lower case.
            yield f"\n### {row.code}\n\n**{row.title}.** {row.remedy}\n\n{POLICIES[row.policy]}\n"


def main(arguments: list[str] | None = None, docs: Path = DOCS) -> int:
    """Writes or checks the files below ``docs``. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.house.protocol_documents", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    check = parser.parse_args(arguments).check
    expected = {docs / path: content for path, content in documents().items()}
    stale = [path for path, content in expected.items() if not path.is_file() or path.read_bytes() != content]
    schemas = [*(docs / "protocol").glob("*.json"), *(docs / "changelog").glob("*.json")]
    orphans = [path for path in schemas if path not in expected]
    if check:
        for path in (*stale, *orphans):
            sys.stderr.write(
                f"{path.relative_to(docs.parent)} is out of date; run: python -m tests.house.protocol_documents\n"
            )
        return 1 if stale or orphans else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(expected[path])
    for path in orphans:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
