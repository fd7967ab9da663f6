"""The names under which columns are stored, whatever the source calls them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.changelog.shop import closed, document, stored
from tidemark.protocol.changelog import ChangeLog, TableSchema
from tidemark.protocol.changelog.columns.table_schema import table_schema
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.runtime.changelog.documents.column_names import ColumnNames
from tidemark.runtime.changelog.writer import LogWriter

INTEGER = {"type": "integer"}
DAY = {"type": "string", "format": "date"}


def write(root: Path, schema: dict[str, Any], documents: Sequence[bytes], key: Sequence[str] = ()) -> TableSchema:
    """Writes documents, as a writer of their own. Returns the schema that they are stored under."""
    with LogWriter.open(root, "shop") as log:
        batch = log.begin()
        bound = log.bind("public/t", schema, key)
        batch.add(bound, documents)
        log.commit(batch, {}, 1)
    return bound.schema


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["id", "Name", "NAME", "name"], ["id", "Name", "NAME__2", "name__3"]),
        (["a", "a__2", "A"], ["a", "a__2", "A__3"]),
        (["_op", "_BEFORE", "_Offset"], ["_op__2", "_BEFORE__2", "_Offset__2"]),
        (["_doc", "_META"], ["_doc__2", "_META__2"]),
        (["", "_"], ["_", "___2"]),
        (['a"b', "a\\b", "a\nb", "a_b"], ["a_b", "a_b__2", "a_b__3", "a_b__4"]),
        (["straße", "STRASSE"], ["straße", "STRASSE__2"]),
    ],
)
def test_a_name_that_no_file_can_have_is_stored_as_another_one(
    tmp_path: Path, sources: list[str], expected: list[str]
) -> None:
    row = orjson.dumps(
        {"_meta": {"op": "u", "before": {sources[0]: 7}, "unchanged": sources[:1]}}
        | {name: number for number, name in enumerate(sources)}
    )
    schema = write(tmp_path, closed(**dict.fromkeys(sources, INTEGER)), [row], sources[:1])
    assert [column.name for column in schema.columns] == expected
    assert [column.in_source for column in schema.columns] == sources
    assert schema.key == expected[:1]
    (event,) = stored(tmp_path, "public/t")
    assert [event[name] for name in expected] == list(range(len(sources)))
    assert (event["_before"], event["_unchanged"]) == (orjson.dumps({expected[0]: 7}).decode(), expected[:1])


def test_a_name_is_chosen_once(tmp_path: Path) -> None:
    """Also when the column that it had to differ from is gone, and for a writer that starts later."""
    for sources, expected in [
        (["Name", "name"], ["Name", "name__2"]),
        (["name"], ["name__2"]),
        (["name", "NAME", "Name"], ["name__2", "NAME__3", "Name"]),
    ]:
        row = orjson.dumps({"_meta": {"op": "c"}} | dict.fromkeys(sources, 1))
        schema = write(tmp_path, closed(**dict.fromkeys(sources, INTEGER)), [row])
        assert [column.name for column in schema.columns] == expected


def test_a_type_that_old_values_do_not_have_gets_a_name_for_reads_of_both(tmp_path: Path) -> None:
    found = []
    for type_, value in [(INTEGER, 1), (DAY, "2026-01-31"), ({"type": "string"}, "x"), (INTEGER, 2), (INTEGER, 3)]:
        schema = write(tmp_path, closed(c=type_), [document(c=value)])
        (column,) = schema.columns
        found.append((column.name, column.spanning))
    assert found == [("c", None), ("c", "c__2"), ("c", "c__2"), ("c", "c__3"), ("c", "c__3")]


def test_a_column_whose_documents_were_discarded_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, closed(c=INTEGER), [document(c=1)])
    with LogWriter.open(tmp_path, "shop") as log:
        lost = log.begin()
        assert log.bind("public/t", closed(c=DAY)).schema.columns[0].spanning == "c__2"
        lost.discard()
        log.begin()
        assert log.bind("public/t", closed(c=INTEGER)).schema.columns[0].spanning is None


def test_a_later_column_does_not_take_a_name_that_reads_of_both_have(tmp_path: Path) -> None:
    write(tmp_path, closed(c=INTEGER), [document(c=1)])
    write(tmp_path, closed(c=DAY), [document(c="2026-01-31")])
    schema = write(tmp_path, closed(c=DAY, c__2=INTEGER), [document(c="2026-01-31", c__2=1)])
    assert [(column.name, column.source, column.spanning) for column in schema.columns] == [
        ("c", None, "c__2"),
        ("c__2__2", "c__2", None),
    ]


@given(st.lists(st.lists(st.text(st.sampled_from('aAbB_"\\2'), max_size=5), max_size=5, unique=True), max_size=4))
def test_names_are_distinct_and_stay(histories: list[list[str]]) -> None:
    known: list[TableSchema] = []
    chosen: dict[str, str] = {}
    for number, sources in enumerate(histories):
        kept = ColumnNames(known)
        type_ = INTEGER if number % 2 else DAY
        schema = kept.stored(table_schema("public/t", closed(**dict.fromkeys(sources, type_))))
        assert kept.stored(table_schema("public/t", closed(**dict.fromkeys(sources, type_)))) == schema
        for column in schema.columns:
            assert chosen.setdefault(column.in_source, column.name) == column.name
        known.append(schema)
    assert chosen.keys() == {source for sources in histories for source in sources if source != "_meta"}
    folded = {name.casefold() for name in chosen.values()}
    assert len(folded) == len(chosen)
    assert folded.isdisjoint(META_COLUMNS)
    spanning = {(c.name, c.spanning) for schema in known for c in schema.columns if c.spanning}
    assert folded.isdisjoint(name.casefold() for _, name in spanning)
    assert len({name.casefold() for _, name in spanning}) == len(spanning)


def test_members_that_the_schema_lacks_get_such_names_too(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path, "shop") as log:
        batch = log.begin()
        batch.add(log.bind("public/t", closed(id=INTEGER), widens=True), [document(id=1, ID=2, _op="x")])
        log.commit(batch, {}, 1)
    with LogWriter.open(tmp_path, "shop") as log:
        batch = log.begin()
        batch.add(log.bind("public/t", closed(id=INTEGER), widens=True), [document(id=2, ID=3)])
        log.commit(batch, {}, 2)
    found = [(event["id"], event["ID__2"], event["_op__2"]) for event in stored(tmp_path, "public/t")]
    assert found == [(1, "2", '"x"'), (2, "3", None)]


def test_a_value_that_does_not_fit_is_told_of_by_the_name_in_the_source(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path, "shop") as log:
        batch = log.begin()
        batch.add(
            log.bind("public/t", closed(**{'a"b': INTEGER}), ['a"b']),
            [orjson.dumps({"_meta": {"op": "c"}, 'a"b': "x"})],
        )
        log.commit(batch, {}, 1)
        (reason,) = (reason for _, reason in batch.quarantine.reasons.values())
    assert """'a"b'""" in reason.message
    assert r'text: ["a\"b"]' in reason.remedy
    (event,) = stored_quarantine(tmp_path)
    assert event["key"] == '{"a_b":"x"}'


def stored_quarantine(root: Path) -> list[dict[str, Any]]:
    return stored(root, "_quarantine")


def test_whole_documents_keep_the_columns_of_their_key(tmp_path: Path) -> None:
    schema = {"properties": {"ID": INTEGER, "more": {"type": "string"}}}
    rows = [orjson.dumps({"_meta": {"op": "c"}, "ID": 1, "id": "x", "more": 2}), b'{"ID":2}', b'{"id":3}']
    bound = write(tmp_path, schema, rows, ["ID", "id"])
    assert [(column.name, column.type) for column in bound.columns] == [
        ("ID", "bigint"),
        ("id__2", "string"),
        ("_doc", "string"),
    ]
    assert bound.key == ["ID", "id__2"]
    events = stored(tmp_path, "public/t")
    assert [(event["ID"], event["id__2"], event["_doc"].encode()) for event in events] == [
        (1, '"x"', rows[0]),
        (2, None, rows[1]),
        (None, "3", rows[2]),
    ]


def test_a_key_that_does_not_fit_in_a_whole_document_is_kept_apart(tmp_path: Path) -> None:
    rows = [b'{"id":1}', b'{"id":"x"}', b'{"id":2}']
    write(tmp_path, {"properties": {"id": INTEGER}}, rows, ["id"])
    assert [event["id"] for event in stored(tmp_path, "public/t")] == [1, 2]
    assert [event["document"] for event in stored_quarantine(tmp_path)] == ['{"id":"x"}']


def test_fingerprints_of_earlier_versions_are_the_same(tmp_path: Path) -> None:
    write(tmp_path, closed(id=INTEGER), [document(id=1)])
    (segment,) = ChangeLog(tmp_path).segments("public/t", 0, 1)
    assert segment.fingerprint == "492a3ca9ba07cda1"


def test_strange_names_are_kept(tmp_path: Path) -> None:
    names = ["a b", "a.b", "naïve", "数", "it's", "$x", "%", "-", "select", " ", "x" * 300, "meta", "c0"]
    with LogWriter.open(tmp_path, "shop") as log:
        batch = log.begin()
        schema = closed(**{name: {"type": "array", "items": {"type": "integer"}} for name in names})
        batch.add(
            log.bind("public/t", schema),
            [orjson.dumps({"_meta": {"op": "c"}} | {name: [n] for n, name in enumerate(names)})],
        )
        log.commit(batch, {}, 1)
    (event,) = stored(tmp_path, "public/t")
    assert [event[name] for name in names] == [[n] for n in range(len(names))]
