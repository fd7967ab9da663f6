from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.spark_sink.log_builder import LogBuilder, create, schema
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.pipeline.followed_tables import FollowedTables
from tidemark.spark_sink.run.progress import LoggedProgress
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace


def followed(
    log: LogBuilder,
    rules: dict[str, str | list[str]],
    clock: Callable[[], float] = time.monotonic,
    **more: Any,
) -> FollowedTables:
    settings = KeepSettings(
        log=StorePlace.of(log.root), warehouse=StorePlace.of(log.root.parent / "lake"), rules=KeepRules(rules), **more
    )
    tables = FollowedTables(settings, FollowedLog(log.root), LoggedProgress(), clock)
    tables.admit(tables._log.summary())
    return tables


def test_trouble_that_may_pass_is_tried_again_ever_later(log: LogBuilder) -> None:
    log.commit(create(1))
    now = 100.0
    tables = followed(log, {"*": "current"}, clock=lambda: now)
    (table,) = tables.active
    pauses = []
    for _ in range(8):
        tables.set_aside(table, SparkError("TM-SPK-013", "an executor was lost"))
        assert not tables.active
        began = now
        while not tables.active:
            now += 0.5
            tables.revive()
        pauses.append(now - began)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_what_a_person_must_do_is_not_tried_again(log: LogBuilder) -> None:
    log.commit(create(1))
    now = 100.0
    tables = followed(log, {"*": "current"}, clock=lambda: now)
    tables.set_aside(tables.active[0], SparkError("TM-SPK-005", "a column changed"))
    now = 1e9
    tables.revive()
    assert not tables.active

    tables.remember()
    assert not followed(log, {"*": "current"}).active, "the next run knows"
    assert followed(log, {"*": "current"}, retry=("public.items",)).active


def test_what_left_a_table_since_its_last_vacuum_is_remembered(log: LogBuilder) -> None:
    log.commit(create(1))
    tables = followed(log, {"*": "current"})
    (table,) = tables.active
    table.removed = 7
    tables.remember()
    (again,) = followed(log, {"*": "current"}).active
    assert (again.removed, again.vacuumed) == (7, table.vacuumed)


def test_a_table_without_a_key_is_refused_until_it_has_one(log: LogBuilder) -> None:
    log.change_schema(schema(key=()))
    log.commit(create(1))
    tables = followed(log, {"public.items": ["current", "history"]})
    assert [table.target.kind for table in tables.active] == ["history"]
    tables.remember()

    log.change_schema(schema())
    log.commit(create(2))
    tables.admit(FollowedLog(log.root).summary())
    assert sorted(table.target.kind for table in tables.active) == ["current", "history"]
    assert len(followed(log, {"public.items": ["current", "history"]}).active) == 2
