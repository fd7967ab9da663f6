"""Which of the discovered tables are captured, and under which options."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tidemark.protocol.capture_file import TableEntry
from tidemark.protocol.errors import UsageError
from tidemark.protocol.messages import DiscoveredBinding, SpecResponse
from tidemark.protocol.text.pointers import column_of
from tidemark.runtime.preparation.selection import select, state_key

OPTIONS: dict[str, Any] = {
    name: {} for name in ("schema", "table", "exclude", "hash", "key", "where", "priority", "scan")
}


def spec(options: dict[str, Any] | None = OPTIONS) -> SpecResponse:
    return SpecResponse(
        config_schema={},
        resource_config_schema={} if options is None else {"properties": options},
        documentation_url="https://example.test",
        resource_path_pointers=["/schema", "/table"],
    )


def table(name: str, *, disable: bool = False) -> DiscoveredBinding:
    schema, _, short = name.partition(".")
    return DiscoveredBinding(
        recommended_name=f"{schema}/{short}",
        resource_config={"schema": schema, "table": short},
        document_schema={
            "properties": {"_meta": {}, "id": {}, "name": {}, "ssn": {}},
            "required": ["id", "ssn"],
            "additionalProperties": False,
        },
        key=["/id"],
        disable=disable,
    )


FOUND = [table(name) for name in ("public.orders", "public.users", "sales.emea", "sales.apac")]


def names(*entries: TableEntry) -> list[str]:
    return [chosen.name for chosen in select(spec(), FOUND, entries).tables]


def test_all_are_chosen_where_nothing_is_said() -> None:
    everything = [chosen.name for chosen in select(spec(), FOUND, None).tables]
    assert everything == ["public.orders", "public.users", "sales.apac", "sales.emea"]


def test_tables_and_patterns() -> None:
    assert names(TableEntry(table="public.users")) == ["public.users"]
    assert names(TableEntry(table="sales.*"), TableEntry(table="public.users")) == [
        "public.users",
        "sales.apac",
        "sales.emea",
    ]
    assert names(TableEntry(table="*.orders")) == ["public.orders"]


def test_a_named_table_wins_over_a_pattern_wherever_it_stands() -> None:
    options = TableEntry(table="public.users", exclude=["ssn"])
    for entries in ([TableEntry(table="public.*"), options], [options, TableEntry(table="public.*")]):
        chosen = {one.name: one for one in select(spec(), FOUND, entries).tables}
        assert chosen["public.users"].binding.resource_config["exclude"] == ["ssn"]
        assert "exclude" not in chosen["public.orders"].binding.resource_config


def test_a_binding_holds_the_options_and_the_schema_without_excluded_columns() -> None:
    given = {
        "table": "public.users",
        "exclude": ["ssn"],
        "key": ["name"],
        "priority": 3,
        "text": ["name"],
        "backfill": 2,
    }
    entry = TableEntry.model_validate(given)
    (chosen,) = select(spec(), FOUND, [entry]).tables
    binding = chosen.binding
    assert binding.resource_config == {
        "schema": "public",
        "table": "users",
        "exclude": ["ssn"],
        "key": ["name"],
        "priority": 3,
    }
    assert binding.resource_path == ["public", "users"]
    assert (binding.collection.name, binding.collection.key) == ("public/users", ["/name"])
    assert list(binding.collection.write_schema["properties"]) == ["_meta", "id", "name"]
    assert binding.collection.write_schema["required"] == ["id"]
    assert binding.state_key == "public%2Fusers.v2"
    assert chosen.text == ("name",)


def test_hashed_columns_are_texts() -> None:
    (chosen,) = select(spec(), FOUND, [TableEntry(table="public.users", hash=["ssn"])]).tables
    assert chosen.binding.resource_config["hash"] == ["ssn"]
    properties = chosen.binding.collection.write_schema["properties"]
    assert (properties["ssn"], properties["name"]) == ({"type": ["string", "null"]}, {})


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([TableEntry(table="public.order")], ["no table public.order (did you mean public.orders"]),
        ([TableEntry(table="Public.Users")], ["no table Public.Users"]),
        ([TableEntry(table="crm.*")], ["the pattern crm.* matches no table"]),
        ([TableEntry(table="public.users"), TableEntry(table="public.users")], ["public.users is listed twice"]),
        ([TableEntry(table="a.b"), TableEntry(table="c.*")], ["no table a.b", "the pattern c.* matches"]),
    ],
)
def test_entries_without_a_table_are_named_all_at_once(entries: list[TableEntry], told: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        select(spec(), FOUND, entries)
    assert caught.value.code == "TM-CFG-004"
    for words in told:
        assert words in caught.value.message


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (TableEntry(table="public.users", exclude=["sns"]), "exclude: there is no column sns (did you mean ssn?)"),
        (TableEntry(table="public.users", text=["nam"]), "text: there is no column nam"),
        (TableEntry(table="public.users", hash=["sns"]), "hash: there is no column sns (did you mean ssn?)"),
        (TableEntry(table="public.users", exclude=["id"]), "exclude: id is part of the key"),
        (TableEntry(table="public.*", exclude=["id"]), "public.orders: exclude: id is part of the key"),
    ],
)
def test_options_that_do_not_fit_the_table(entry: TableEntry, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(spec(), FOUND, [entry])
    assert caught.value.code == "TM-CFG-005"
    assert told in caught.value.message


def test_a_disabled_table_is_left_out_of_a_pattern_and_refused_by_name() -> None:
    found = [*FOUND, table("public.view", disable=True)]
    selection = select(spec(), found, [TableEntry(table="public.*")])
    assert [one.name for one in selection.tables] == ["public.orders", "public.users"]
    assert selection.warnings == ["public.view is left out: the connector reports it as disabled"]
    with pytest.raises(UsageError, match=r"can capture public\.view only if"):
        select(spec(), found, [TableEntry(table="public.view")])


@pytest.mark.parametrize(
    "entry",
    [TableEntry.model_validate({"table": "public.view", "scan": "none"}), TableEntry(table="public.view", key=["id"])],
)
def test_a_disabled_table_is_captured_by_an_entry_that_says_how(entry: TableEntry) -> None:
    (chosen,) = select(spec(), [*FOUND, table("public.view", disable=True)], [entry]).tables
    assert chosen.name == "public.view"
    assert chosen.binding.resource_config.items() >= entry.options.items()


def test_nothing_to_capture_is_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        select(spec(), [], None)
    assert caught.value.code == "TM-CFG-004"


def test_a_path_the_connector_gives_goes_before_its_pointers() -> None:
    found = replace(table("public.users"), resource_path=["db", "public", "users"])
    (chosen,) = select(spec(), [found], [TableEntry(table="db.public.users")]).tables
    assert chosen.binding.state_key == "db%2Fpublic%2Fusers"


@pytest.mark.parametrize(
    ("path", "backfill", "key"),
    [
        (["public", "users"], 0, "public%2Fusers"),
        (["public", "users"], 1, "public%2Fusers.v1"),
        (["public", "users.v1"], 0, "public%2Fusers%2Ev1"),
        (["public", "users.v1"], 2, "public%2Fusers%2Ev1.v2"),
        (["a.v1", "users.v"], 0, "a.v1%2Fusers.v"),
        (["a-b_c+d.e=f", "1"], 0, "a-b_c+d.e=f%2F1"),
        (["~tilde", "sp ace"], 0, "%7Etilde%2Fsp%20ace"),
        (["grüße"], 0, "gr%C3%BC%C3%9Fe"),
    ],
)
def test_state_keys(path: list[str], backfill: int, key: str) -> None:
    assert state_key(path, backfill) == key


@pytest.mark.parametrize(
    ("pointer", "column"),
    [("/id", "id"), ("/a~1b~0c", "a/b~c"), ("/_meta/source/loc", None), ("", None), ("/", None), ("id", None)],
)
def test_the_column_of_a_pointer(pointer: str, column: str | None) -> None:
    assert column_of(pointer) == column


def test_two_tables_of_one_name() -> None:
    """One that is named cannot be told from the other; a pattern covers the one captured before, or the first."""
    twins = [table("public.a.b"), table("public.c")]
    twins.append(replace(twins[0], resource_config={"schema": "public.a", "table": "b"}))
    with pytest.raises(UsageError, match=r"more than one table has the name public\.a\.b") as caught:
        select(spec(), twins, [TableEntry(table="public.a.b")])
    assert caught.value.code == "TM-CFG-004"
    for known, path, left in (([], ["public", "a.b"], "public.a/b"), (twins[2:], ["public.a", "b"], "public/a.b")):
        selection = select(spec(), twins, None, known)
        assert [one.binding.resource_path for one in selection.tables] == [path, ["public", "c"]]
        assert selection.warnings == [f"{left} is left out: another table has the name public.a.b"]
    assert [chosen.name for chosen in select(spec(), twins, [TableEntry(table="public.c")]).tables] == ["public.c"]


def test_two_tables_of_one_collection() -> None:
    one, other = table("public.a/b"), table("public/a.b")
    assert one.recommended_name == other.recommended_name
    selection = select(spec(), [*FOUND, one, other], None)
    assert len(selection.tables) == len(FOUND) + 1
    (warning,) = selection.warnings
    assert warning == "public/a.b is left out: public.a/b already has the collection public/a/b"
    named = select(spec(), [*FOUND, one, other], [TableEntry(table="*"), TableEntry(table="public/a.b")])
    assert [t.name for t in named.tables if "/" in t.name] == ["public/a.b"]
    before = select(spec(), [*FOUND, one, other], None, [other])
    assert [t.name for t in before.tables if "/" in t.name] == ["public/a.b"]
    with pytest.raises(UsageError, match="more than one table has the name public/a/b"):
        select(spec(), [one, other], [TableEntry(table="public/a.b"), TableEntry(table="public.a/b")])


@pytest.mark.parametrize("entries", [None, [TableEntry(table="public.*")], [TableEntry(table="public.users")]])
@pytest.mark.parametrize("present", [[], [table("public.users", disable=True)]])
def test_a_table_that_was_captured_before_is_chosen_though_it_is_away(
    entries: list[TableEntry] | None, present: list[DiscoveredBinding]
) -> None:
    orders, users = FOUND[:2]
    selection = select(spec(), [orders, *present], entries, [orders, users])
    (chosen,) = [one for one in selection.tables if one.name == "public.users"]
    assert chosen.binding.resource_config == users.resource_config and chosen.binding.collection.key == ["/id"]
    assert selection.warnings == ["public.users can no longer be captured: it is missing or has changed"]
    assert users in selection.found
    # What is no more wanted is not kept.
    assert [one.name for one in select(spec(), [orders], [TableEntry(table="public.orders")], [users]).tables] == [
        "public.orders"
    ]


def test_an_option_that_does_not_fit_any_more_is_for_the_connector_to_judge() -> None:
    changed = replace(FOUND[1], document_schema={"properties": {"_meta": {}, "id": {}}}, disable=True)
    entry = TableEntry(table="public.users", exclude=["ssn"], text=["nam"])
    selection = select(spec(), [FOUND[0], changed], [entry], [FOUND[1]])
    assert [one.name for one in selection.tables] == ["public.users"]
    assert any("text: there is no column nam" in warning for warning in selection.warnings)


def test_columns_of_a_key_that_is_no_collections_key() -> None:
    found = table("public.measured")
    keyless = [f"/_meta/source/loc/{part}" for part in range(4)]
    schema = {**found.document_schema, "x-key": ["id"]}
    fallen_back = replace(found, key=keyless, document_schema=schema)
    (chosen,) = select(spec(), [fallen_back], None).tables
    assert (chosen.key, chosen.binding.collection.key) == (("id",), keyless)
    (without,) = select(spec(), [replace(found, key=keyless)], None).tables
    assert without.key == ()
    (configured,) = select(spec(), [fallen_back], [TableEntry(table="public.measured", key=["name"])]).tables
    assert (configured.key, configured.binding.collection.key) == (("name",), ["/name"])
