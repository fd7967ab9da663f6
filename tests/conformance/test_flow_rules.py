"""A connector under Flow's runtime: what it announces is taken there, and so is every document that it sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.captures.session import Json, Session
from tests.conformance.engine import Engine
from tests.conformance.flow_rules import build, check_key, key_of, reduced, stamped
from tests.conformance.test_types import COLUMNS

FLOW = {"TIDEMARK_RUNTIME": ""}
"""The environment of a connector that another runtime than ours has started."""


def discovered(engine: Engine, **config: Any) -> dict[str, Json]:
    """What is discovered, by table."""
    status, messages, logs = engine.unary({"discover": {"config": engine.config(**config)}}, FLOW)
    assert status == 0, logs
    return {found["resourceConfig"]["table"]: found for found in messages[0]["discovered"]["bindings"]}


def bound(engine: Engine, found: dict[str, Json], *tables: str, **resource: Any) -> list[Json]:
    """Bindings to collections as that runtime makes them of what was discovered."""
    bindings = engine.bindings(*tables, **resource)
    for binding, table in zip(bindings, tables, strict=True):
        binding["collection"] |= {"key": found[table]["key"], "writeSchema": found[table]["documentSchema"]}
    return bindings


def of(capture: Session, binding: int) -> list[Json]:
    return [document for index, document in capture.documents if index == binding]


def test_the_configuration_is_one_that_flow_takes(engine: Engine) -> None:
    _, (message,), _ = engine.unary({"spec": {}}, FLOW)
    spec = message["spec"]
    for schema in (spec["configSchema"], spec["resourceConfigSchema"]):
        build(schema)
    assert {spec["configSchema"]["properties"][name]["secret"] for name in ("password", "hash_salt")} == {True}
    url = urlsplit(spec["documentationUrl"])
    assert (url.scheme, url.netloc) == ("file", "")
    assert engine.module in Path(unquote(url.path)).read_text(), "it leads to the connector's own page"
    _, (message,), _ = engine.unary({"spec": {}}, {**FLOW, "DOCS_URL": "https://docs.example/page"})
    assert message["spec"]["documentationUrl"] == "https://docs.example/page"


def test_every_document_is_valid_against_the_discovered_schema(engine: Engine) -> None:
    types = []
    for name, (sql_type, _) in COLUMNS.items():
        for short, long in engine.types.items():
            sql_type = sql_type.replace("{" + short + "}", long)
        types.append(f"{name} {sql_type}{' NULL' if name == 'moment' else ''}")
    engine.execute(f"CREATE TABLE things (id int PRIMARY KEY, {', '.join(types)})")
    found = discovered(engine)["things"]
    schema = build(found["documentSchema"])
    check_key(found["documentSchema"], found["key"])
    rows = [[values[n][0] for _, values in COLUMNS.values()] for n in range(3)]
    engine.insert("things", [(n, *row) for n, row in enumerate(rows)])
    with engine.capture(bound(engine, {"things": found}, "things"), env=FLOW) as capture:
        capture.until(Session.done)
        engine.insert("things", [(n + 3, *row) for n, row in enumerate(rows)])
        engine.execute(
            "UPDATE things SET words = 'other' WHERE id = 3",
            "UPDATE things SET id = id + 10 WHERE id < 2",
            "DELETE FROM things WHERE id = 4",
            f"ALTER TABLE things ADD COLUMN added {engine.types['text']}",
            "INSERT INTO things (id, words, double_, day, raw, added) VALUES (20, 'new', 1, '2024-01-01', '', 'x')",
        )
        capture.until(lambda c: len(c.documents) >= 3 + 3 + 1 + 4 + 1 + 1)
        assert {doc["_meta"]["op"] for _, doc in capture.documents} == set("cud")
        for document in of(capture, 0):
            schema.validate(stamped(document))
        left = reduced(of(capture, 0), found["documentSchema"], found["key"])
        assert {at[0] for at in left} == {2, 3, 5, 10, 11, 20}
        assert (left[3,]["words"], left[20,]["added"]) == ("other", "x")
        for _, sourced in capture.schemas:
            build(sourced)
            assert sourced["additionalProperties"] is False and sourced["x-complete"] is True
        assert "added" in capture.schemas[-1][1]["properties"]


def test_a_key_that_is_no_scalar_is_none_of_a_collection(engine: Engine) -> None:
    engine.execute("CREATE TABLE measured (at double precision PRIMARY KEY, note int)")
    found = discovered(engine)["measured"]
    assert found["isFallbackKey"] and found["key"][0].startswith("/_meta/source/")
    assert found["documentSchema"]["x-key"] == ["at"]
    check_key(found["documentSchema"], found["key"])
    engine.insert("measured", [(n + 0.5, n) for n in range(50)])
    bindings = bound(engine, {"measured": found}, "measured")
    with engine.capture(bindings, env=FLOW, backfill={"chunk_rows": 10}) as capture:
        capture.until(Session.done)
        engine.insert("measured", [(n + 0.5, n) for n in range(50, 100)])
        # One statement, and so as few records of the log as there can be; each is a row gone and a row come.
        engine.execute("UPDATE measured SET at = at + 1000 WHERE note >= 90")
        capture.until(lambda c: len(c.documents) >= 100 + 20)
        keys = [key_of(document, found["key"]) for document in of(capture, 0)]
        assert len(keys) == len(set(keys)) == 120
        schema = build(found["documentSchema"])
        for document in of(capture, 0):
            schema.validate(stamped(document))


def test_an_old_fallback_key_is_refused(engine: Engine) -> None:
    engine.users(0)
    (pointer, *others) = discovered(engine)["users"]["key"]
    assert (pointer, others) == ("/id", [])
    binding = engine.bindings("users")[0]
    for key in (["/_meta/source/loc"], [f"/_meta/source/loc/{part}" for part in range(3)]):
        binding["collection"]["key"] = key
        status, _, logs = engine.unary({"validate": {"config": engine.config(), "bindings": [binding]}}, FLOW)
        # Where the place in the log is a text, there never was another key.
        refused = engine.prefix == "TM-PG"
        assert status == int(refused), logs
        if refused:
            assert logs[-1]["fields"]["code"] == "TM-CAP-012"


def test_a_part_of_the_key_range_is_refused(engine: Engine) -> None:
    engine.users(0)
    capture = {"name": "test", "config": engine.config(), "bindings": engine.bindings("users")}
    half = {"keyBegin": 0, "keyEnd": 2**31 - 1, "rClockEnd": 2**32 - 1}
    status, messages, logs = engine.unary({"open": {"capture": capture, "range": half}}, FLOW)
    assert (status, messages, logs[-1]["fields"]["code"]) == (1, [], "TM-CAP-011")


@pytest.mark.parametrize("option", ["auto", "ignore"])
def test_a_truncate_is_ignored_with_a_warning(engine: Engine, option: str) -> None:
    engine.users(3)
    found = discovered(engine, truncate=option)
    with engine.capture(bound(engine, found, "users"), env=FLOW, truncate=option) as capture:
        capture.until(lambda c: len(c.documents) == 3)
        engine.execute("TRUNCATE TABLE users", "INSERT INTO users VALUES (9, 'after')")
        capture.until(lambda c: len(c.documents) == 4)
        assert [document["_meta"]["op"] for document in of(capture, 0)] == ["c"] * 4
        capture.until(lambda c: any("was truncated" in line["message"] for line in c.logs))
    warning = next(line for line in capture.logs if "was truncated" in line["message"])
    assert warning["level"] == "warning" and f"{engine.schema}.users" in warning["message"]


def test_our_runtime_is_told_of_a_truncate(engine: Engine) -> None:
    engine.users(3)
    with engine.capture(engine.bindings("users"), env={"TIDEMARK_RUNTIME": "1"}) as capture:
        capture.until(lambda c: len(c.documents) == 3)
        engine.execute("TRUNCATE TABLE users")
        capture.until(lambda c: len(c.documents) == 4)
        assert of(capture, 0)[-1]["_meta"]["op"] == "t"


def test_backfills_and_truncates_are_announced(engine: Engine) -> None:
    def said(capture: Session) -> list[str]:
        return [kind if kind != "doc" else body["_meta"]["op"] for kind, _, body in capture.events if kind != "schema"]

    engine.users(2)
    bindings = engine.bindings("users")
    with engine.capture(bindings, env=FLOW, truncate="backfill") as capture:
        capture.until(lambda c: "backfillComplete" in said(c))
        assert said(capture) == ["backfillBegin", "c", "c", "backfillComplete"]
        engine.execute("TRUNCATE TABLE users", "INSERT INTO users VALUES (9, 'after')")
        capture.until(lambda c: len(c.documents) == 3)
        assert said(capture)[4:] == ["backfillBegin", "backfillComplete", "c"]
        capture.send({"control": {"sequence": 1, "action": "backfill", "truncate": True}})
        capture.until(lambda c: len(c.documents) == 4 and said(c)[-1] == "backfillComplete")
        assert said(capture)[7:] == ["backfillBegin", "c", "backfillComplete"]
    with engine.capture(bindings, capture.state, env=FLOW, truncate="backfill") as again:
        engine.execute("INSERT INTO users VALUES (10, 'later')")
        again.until(lambda c: len(c.documents) == 1)
        assert said(again) == ["c"]
