from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.spark_sink.log_builder import LogBuilder, create, schema
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.pipeline.care import Care
from tidemark.spark_sink.run.progress import LoggedProgress
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace


def cared_for(
    log: LogBuilder,
    rules: dict[str, str | list[str]],
    clock: Callable[[], float] = time.monotonic,
    **more: Any,
) -> Care:
    settings = KeepSettings(
        log=StorePlace.of(log.root), warehouse=StorePlace.of(log.root.parent / "lake"), rules=KeepRules(rules), **more
    )
    care = Care(settings, FollowedLog(log.root), LoggedProgress(), clock)
    care.admit(care._log.summary())
    return care


def test_trouble_that_may_pass_is_tried_again_ever_later(log: LogBuilder) -> None:
    log.commit(create(1))
    now = 100.0
    care = cared_for(log, {"*": "current"}, clock=lambda: now)
    (ward,) = care.active
    pauses = []
    for _ in range(8):
        care.set_aside(ward, SparkError("TM-SPK-013", "an executor was lost"))
        assert not care.active
        began = now
        while not care.active:
            now += 0.5
            care.revive()
        pauses.append(now - began)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_what_a_person_must_do_is_not_tried_again(log: LogBuilder) -> None:
    log.commit(create(1))
    now = 100.0
    care = cared_for(log, {"*": "current"}, clock=lambda: now)
    care.set_aside(care.active[0], SparkError("TM-SPK-005", "a column changed"))
    now = 1e9
    care.revive()
    assert not care.active

    care.remember()
    assert not cared_for(log, {"*": "current"}).active, "the next run knows"
    assert cared_for(log, {"*": "current"}, retry=("public.items",)).active


def test_what_left_a_table_since_its_last_vacuum_is_remembered(log: LogBuilder) -> None:
    log.commit(create(1))
    care = cared_for(log, {"*": "current"})
    (ward,) = care.active
    ward.removed = 7
    care.remember()
    (again,) = cared_for(log, {"*": "current"}).active
    assert (again.removed, again.vacuumed) == (7, ward.vacuumed)


def test_a_table_without_a_key_is_refused_until_it_has_one(log: LogBuilder) -> None:
    log.change_schema(schema(key=()))
    log.commit(create(1))
    care = cared_for(log, {"public.items": ["current", "history"]})
    assert [ward.target.kind for ward in care.active] == ["history"]
    care.remember()

    log.change_schema(schema())
    log.commit(create(2))
    care.admit(FollowedLog(log.root).summary())
    assert sorted(ward.target.kind for ward in care.active) == ["current", "history"]
    assert len(cared_for(log, {"public.items": ["current", "history"]}).active) == 2
