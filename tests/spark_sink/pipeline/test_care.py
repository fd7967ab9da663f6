from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark_sink.log_builder import LogBuilder, create, schema
from tidemark.protocol.errors import SparkError, TidemarkError
from tidemark.spark_sink.pipeline.care import Care
from tidemark.spark_sink.pipeline.progress import LoggedProgress
from tidemark.spark_sink.pipeline.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import KeepRules


def cared_for(
    log: LogBuilder,
    rules: dict[str, str | list[str]],
    clock: Callable[[], float] = time.monotonic,
    **more: Any,
) -> Care:
    settings = KeepSettings(log=log.root, warehouse=log.root.parent / "lake", rules=KeepRules(rules), **more)
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


def test_a_name_that_matches_no_table_is_an_error_or_a_warning(
    log: LogBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    log.change_schema(schema("public/orders"))
    cared_for(log, {"public.itms": "current"}, only=("public.none",))  # An empty log says nothing.
    log.commit(create(1), create(1, table="public/orders"))

    with pytest.raises(TidemarkError, match=r"TM-SPK-004.*public\.itms, as --table says \(did you mean public\.items"):
        cared_for(log, {"*": "current"}, only=("public.orders", "public.itms"))
    with pytest.raises(TidemarkError, match=r"TM-SPK-004.*public\.itms, as spark.tables says \(did you mean"):
        cared_for(log, {"public.itms": "current", "sales.*": "current"})
    assert caplog.messages == []

    cared_for(log, {"public.*": "current", "sales.*": "current"})
    cared_for(log, {"*": "current"}, only=("public.itms",), available_now=False)
    assert [message.partition(" has ")[2] for message in caplog.messages] == [
        "no events of a table sales.*, as spark.tables says",
        "no events of a table public.itms, as --table says (did you mean public.items or public.orders?)",
    ]


def test_tables_to_rebuild_must_be_there(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    with pytest.raises(TidemarkError, match=r"TM-SPK-004.*public\.nowhere"):
        cared_for(log, {"*": "current"}, retry=("public.nowhere",))
