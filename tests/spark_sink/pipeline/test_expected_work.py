"""Whether a run expects work, before it opens a table."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.spark_sink.log_builder import LogBuilder, create, schema
from tidemark.protocol.errors import ChangeLogError
from tidemark.spark_sink.pipeline.expected_work import expects_work
from tidemark.spark_sink.pipeline.memory import Memory, SetAside, TableMemory, memory_place
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace

OTHER = "public/other"


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Offsets 0 and 1 are of one table, 2 is of another."""
    log = LogBuilder(tmp_path / "log", schema(), schema(OTHER))
    log.commit(create(1), create(2))
    log.commit(create(1, table=OTHER))
    return log


def settings(log: LogBuilder, **more: Any) -> KeepSettings:
    return KeepSettings(
        log=StorePlace.of(log.root),
        warehouse=StorePlace.of(log.root.parent / "lake"),
        rules=KeepRules({"*": "current"}),
        **more,
    )


def remember(log: LogBuilder, **tables: TableMemory) -> None:
    memory = Memory(tables={f"public/{name} current": known for name, known in tables.items()})
    told = settings(log)
    memory.save(memory_place(told.warehouse, "log-1"))


def test_the_first_run_expects_work_if_the_log_has_events(log: LogBuilder, tmp_path: Path) -> None:
    assert expects_work(settings(log))
    assert not expects_work(settings(LogBuilder(tmp_path / "empty", schema())))


def test_later_runs_expect_work_if_a_table_lacks_events(log: LogBuilder) -> None:
    remember(log, items=TableMemory(complete_to=2), other=TableMemory(complete_to=2))
    assert expects_work(settings(log))
    remember(log, items=TableMemory(complete_to=2), other=TableMemory(complete_to=3))
    assert not expects_work(settings(log))
    log.commit(create(3))
    assert expects_work(settings(log))


def test_tables_that_are_not_asked_for_or_wait_for_a_person_are_no_work(log: LogBuilder) -> None:
    def aside(code: str) -> SetAside:
        return SetAside(kind="SparkError", code=code, message="", remedy="", since=datetime.now(UTC))

    remember(log, items=TableMemory(complete_to=3), other=TableMemory())
    assert expects_work(settings(log))
    assert not expects_work(settings(log, only=("public.it*",)))
    remember(log, items=TableMemory(complete_to=3), other=TableMemory(set_aside=aside("TM-SPK-005")))
    assert not expects_work(settings(log))
    assert expects_work(settings(log, retry=("public.other",)))
    remember(log, items=TableMemory(complete_to=3), other=TableMemory(set_aside=aside("TM-SPK-010")))
    assert expects_work(settings(log)), "it may pass by itself"


def test_a_log_that_is_not_there(log: LogBuilder) -> None:
    (log.root / "tidemark.json").unlink()
    with pytest.raises(ChangeLogError, match="TM-LOG-001"):
        expects_work(settings(log))
