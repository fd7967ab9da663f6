"""Names of tables in a run: what the capture does not have is a mistake, whatever else is right."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.spark_sink.log_builder import LogBuilder, create, schema
from tidemark.protocol.errors import UsageError
from tidemark.protocol.messages import DiscoveredBinding
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.preparation.known_tables import keep_known
from tidemark.spark_sink.pipeline.named_tables import check_named
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace


def check(log: LogBuilder, rules: dict[str, str | list[str]], listed: tuple[str, ...] = (), **more: Any) -> None:
    settings = KeepSettings(
        log=StorePlace.of(log.root), warehouse=StorePlace.of(log.root.parent / "lake"), rules=KeepRules(rules), **more
    )
    check_named(settings, FollowedLog(log.root), listed)


@pytest.fixture
def two_tables(log: LogBuilder) -> LogBuilder:
    log.change_schema(schema("public/orders"))
    log.commit(create(1), create(1, table="public/orders"))
    return log


@pytest.mark.parametrize(
    ("rules", "more", "told"),
    [
        ({"*": "current"}, {"only": ("public.orders", "public.itms")}, "--table: public.itms is not captured (did you"),
        ({"*": "current"}, {"only": ("sales.*",)}, "--table: sales.* is not captured"),
        ({"*": "current"}, {"rebuild": ("public.nowhere",)}, "--rebuild: public.nowhere is not captured"),
        ({"*": "current"}, {"retry": ("public.*",)}, "--retry: public.* is not captured"),
        ({"public.itms": "current"}, {}, "spark.tables: public.itms is not captured (did you mean public.items"),
        ({"public.*": "current", "sales.*": "current"}, {}, "spark.tables: sales.* is not captured"),
    ],
)
@pytest.mark.parametrize("available_now", [True, False])
def test_one_wrong_name_is_an_error(
    two_tables: LogBuilder, rules: dict[str, str | list[str]], more: dict[str, Any], told: str, available_now: bool
) -> None:
    with pytest.raises(UsageError, match=re.escape(f"TM-CFG-004: {told}")) as caught:
        check(two_tables, rules, available_now=available_now, **more)
    assert caught.value.exit_status == 2


def test_all_wrong_names_are_told_at_once(two_tables: LogBuilder) -> None:
    with pytest.raises(UsageError, match=r"--table: a\.b .*; --retry: a\.c .*; spark.tables: a\.d "):
        check(two_tables, {"*": "current", "a.d": "history"}, only=("a.b", "public.items"), retry=("a.c",))


def test_a_captured_table_may_have_no_event_yet(two_tables: LogBuilder) -> None:
    rules: dict[str, str | list[str]] = {"*": "current", "public.empty": "history", "_quarantine": "history"}
    with pytest.raises(UsageError, match=r"public\.empty is not captured"):
        check(two_tables, rules)

    check(two_tables, rules, ("public.empty",))  # The capture file lists it.
    empty = DiscoveredBinding(recommended_name="public/empty", resource_config={}, document_schema={}, key=["/id"])
    keep_known(DirectoryStore(two_tables.root), [empty])
    check(two_tables, rules, only=("public.empty",), rebuild=("public.empty",))
    # Others are in the log, and no longer captured.
    check(two_tables, {**rules, "public.orders": "current"}, only=("public.items",))


def test_a_capture_that_was_never_opened_has_nothing_to_compare_with(log: LogBuilder) -> None:
    check(log, {"public.itms": "current"}, only=("public.none",))
