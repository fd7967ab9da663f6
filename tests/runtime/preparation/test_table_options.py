"""Options of tables: what the connector takes passes, whatever it is; the rest is named with its place in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tidemark.captures.mysql.terms.config import ResourceConfig as MysqlResource
from tidemark.captures.postgres.server.config import ResourceConfig as PostgresResource
from tidemark.protocol.capture_file import TableEntry, mistakes_in, read_capture_file
from tidemark.protocol.messages import SpecResponse
from tidemark.runtime.preparation.table_options import option_mistakes

OURS = PostgresResource.model_json_schema()
MYSQL = MysqlResource.model_json_schema()
OTHERS: dict[str, Any] = {
    "$ref": "#/$defs/Table",
    "$defs": {
        "Table": {"properties": {"stream": {}, "mode": {"$ref": "#/$defs/Mode"}, "interval": {"type": "string"}}},
        "Mode": {"enum": ["full", "tail"]},
    },
}
"""Of a connector that nobody here wrote, as Go's reflection writes it: 'additionalProperties' is not given."""


def found(schema: dict[str, Any], entry: str, pointers: tuple[str, ...] = ("/schema", "/table")) -> list[str]:
    spec = SpecResponse(
        config_schema={},
        resource_config_schema=schema,
        documentation_url="https://example.test",
        resource_path_pointers=list(pointers),
    )
    checked = TableEntry.model_validate(yaml.safe_load(entry))
    return [f"{'.'.join(map(str, place))}: {text}" for place, text in option_mistakes(spec, [checked])]


@pytest.mark.parametrize(
    ("schema", "entry"),
    [
        (OURS, "{table: a.b, scan: physical, where: id > 3, priority: 2, key: [id], exclude: [x], hash: [y]}"),
        (OURS, "{table: a.b, scan: , on_bad_value: {born: null}}"),
        (OURS, "{table: a.b, on_bad_value: null, backfill: 3}"),
        (MYSQL, "{table: a.b, scan: snapshot, text: [born]}"),
        (OTHERS, "{table: a.b, mode: tail, interval: 5m}"),
        (OTHERS, "{table: a.b, text: [born], backfill: 1}"),
        ({}, "{table: a.b, hash: [x], anything: {at: [all]}}"),
        ({"properties": {}, "additionalProperties": True}, "{table: a.b, hash: [x], anything: 1}"),
    ],
)
def test_what_a_connector_takes(schema: dict[str, Any], entry: str) -> None:
    assert found(schema, entry) == []


@pytest.mark.parametrize(
    ("schema", "entry", "told"),
    [
        (OURS, "{table: a.b, exclud: [x]}", "tables.0.exclud: unknown key (did you mean exclude?)"),
        (OURS, "{table: a.b, backfil: 1}", "tables.0.backfil: unknown key (did you mean backfill?)"),
        (OURS, "{table: a.b, scan: slow}", "tables.0.scan: must be one of key, physical, none"),
        (OURS, "{table: a.b, scan: snapshot}", "tables.0.scan: must be one of key, physical, none"),
        (OURS, "{table: a.b, priority: high}", "tables.0.priority: must be of type integer"),
        (OURS, "{table: a.b, on_bad_value: {born: never}}", "tables.0.on_bad_value.born: must be one of stop, text"),
        (OURS, "{table: a.b, nothing_like_it: 1}", "tables.0.nothing_like_it: unknown key"),
        (MYSQL, "{table: a.b, scan: physical}", "tables.0.scan: must be one of key, snapshot, none"),
        (OTHERS, "{table: a.b, mode: fast}", "tables.0.mode: must be one of full, tail"),
        (OTHERS, "{table: a.b, intervall: 5m}", "tables.0.intervall: unknown key (did you mean interval?)"),
        (OTHERS, "{table: a.b, hash: [x]}", "tables.0.hash: the connector has no such option"),
        # A misspelt exclude must not pass for an option of the connector's own: the column would be captured.
        ({}, "{table: a.b, exclud: [x]}", "tables.0.exclud: unknown key (did you mean exclude?)"),
    ],
)
def test_what_it_does_not(schema: dict[str, Any], entry: str, told: str) -> None:
    (mistake,) = found(schema, entry)
    assert mistake.startswith(told)


def test_what_tells_the_table_is_no_option() -> None:
    (mistake,) = found(OTHERS, "{table: a.b, stream: other}", ("/stream",))
    assert mistake.startswith("tables.0.stream: unknown key")


def test_a_mistake_has_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text("capture: shop\nconnector: {command: [x]}\nlog: l\ntables:\n- a.b\n- table: a.c\n  scn: key\n")
    file = read_capture_file(path)
    spec = SpecResponse(config_schema={}, resource_config_schema=OURS, documentation_url="https://example.test")
    error = mistakes_in(file, list(option_mistakes(spec, file.tables or [])))
    assert error.code == "TM-CFG-002"
    assert "line 7: tables.1.scn: unknown key (did you mean scan?)" in error.message
