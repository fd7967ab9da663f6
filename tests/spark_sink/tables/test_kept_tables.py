from __future__ import annotations

import logging

import pytest

from tests.spark_sink.log_builder import schema
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.tables.kept_tables import KeepRules, Target, check_key
from tidemark.spark_sink.tables.store_place import StorePlace

RULES = KeepRules(
    {"*": "current", "public.*": "history", "public.o*": ["history", "current"], "public.orders": "current"}
)


LAKE = StorePlace("/lake")


@pytest.mark.parametrize(
    ("collection", "kinds"),
    [
        ("sales/orders", ["current"]),
        ("public/users", ["history"]),
        ("public/offers", ["history", "current"]),
        ("public/orders", ["current"]),
    ],
)
def test_the_most_specific_pattern_wins(collection: str, kinds: list[str]) -> None:
    assert [target.kind for target in RULES.targets(schema(collection))] == kinds


def test_a_table_that_no_pattern_matches_is_not_kept() -> None:
    assert KeepRules({"public.orders": "current"}).targets(schema("public/users")) == []


def test_a_pattern_character_in_a_name_matches_itself() -> None:
    assert KeepRules({"public.a[1]": "current"}).targets(schema("public/a[1]"))


def test_a_table_without_a_key_has_history_where_a_pattern_asks_for_current(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        targets = KeepRules({"*": "current"}).targets(schema(key=()))

    assert [target.kind for target in targets] == ["history"]
    assert "TM-SPK-007" in caplog.text


def test_a_table_without_a_key_named_for_current_is_an_error() -> None:
    current, history = KeepRules({"public.items": ["current", "history"]}).targets(schema(key=()))

    check_key(history, schema(key=()))
    with pytest.raises(SparkError, match=r"TM-SPK-007.*public\.items"):
        check_key(current, schema(key=()))


def test_a_table_is_at_schema_table_kind() -> None:
    assert Target("public/orders", "current").place(LAKE) == LAKE / "public/orders/current"


def test_no_name_leads_out_of_the_warehouse() -> None:
    assert Target("../..", "history").place(LAKE) == LAKE / "~2E~2E/~2E~2E/history"


def test_names_stay_apart_as_folders() -> None:
    names = ["हिन्दी", "größe", "a:b", "a~3Ab", "a~b", "a%3Ab", "a/b", "tab\t", "back\\slash", "A"]
    folders = [Target(f"public/{name}", "current").place(LAKE) for name in names]
    assert folders[:3] == [LAKE / f"public/{name}/current" for name in ("हिन्दी", "größe", "a~3Ab")]
    assert len(set(folders)) == len(names)
