from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.errors import SparkError, TidemarkError
from spark_sink.pipeline.care import Care
from spark_sink.pipeline.progress import LoggedProgress
from spark_sink.pipeline.settings import KeepSettings
from spark_sink.source.followed_log import FollowedLog
from spark_sink.tables.kept_tables import KeepRules
from tests.spark_sink.log_builder import LogBuilder, create, schema


def cared_for(
    log: LogBuilder,
    rules: dict[str, str | list[str]],
    retry: tuple[str, ...] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Care:
    settings = KeepSettings(log=log.root, warehouse=log.root.parent / "lake", rules=KeepRules(rules), retry=retry)
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


def test_tables_to_rebuild_must_be_there(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    with pytest.raises(TidemarkError, match=r"TM-SPK-004.*public\.nowhere"):
        cared_for(log, {"*": "current"}, retry=("public.nowhere",))
