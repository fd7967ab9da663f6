"""``materialize(FILE)``: a capture file's words and the call's, and what comes of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.spark_sink.log_builder import LogBuilder, create, schema
from tidemark import materialize
from tidemark.protocol.capture_file import read_capture_file
from tidemark.protocol.errors import ChangeLogError, TidemarkError, UsageError
from tidemark.spark_sink.job import keep_settings, spark_entry
from tidemark.spark_sink.run.report import Applied
from tidemark.spark_sink.run.settings import FoldRule, KeepSettings
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tidemark.spark_sink.run.report import PlannedPart


class Seen:
    """Remembers what a run says."""

    def __init__(self) -> None:
        self.parts: list[Applied] = []

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        pass

    def applied(self, applied: Applied) -> None:
        self.parts.append(applied)

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        raise error


def capture_file(folder: Path, log: Path, **spark: object) -> Path:
    path = folder / "shop.yaml"
    entry = {"spark": {"warehouse": "a lake", **spark}} if spark.pop("entry", True) else {}
    content = {"capture": "test", "connector": {"command": ["x"]}, "log": str(log), **entry}
    path.write_text(yaml.safe_dump(content))
    return path


def told(path: Path, **more: object) -> KeepSettings:
    read = read_capture_file(path)
    given: dict[str, object] = {"available_now": True, "only": (), "way": None, "rebuild": (), "retry": (), **more}
    return keep_settings(read, spark_entry(read, path), **given)  # type: ignore[arg-type]


def test_settings_are_the_files_and_the_calls(tmp_path: Path) -> None:
    fold = {"share": 0.5, "max_staleness": "2m"}
    path = capture_file(tmp_path, Path("a log"), trigger="5s", fold=fold, tables={"public.*": ["history", "current"]})
    settings = told(path, available_now=False, only=("public.a*",), way="rewrite", rebuild=("a.b",), retry=("a.c",))
    assert (settings.log, settings.warehouse) == (StorePlace.of(tmp_path / "a log"), StorePlace.of(tmp_path / "a lake"))
    assert settings.fold == FoldRule(share=0.5, max_staleness=120.0, trigger=5.0)
    assert [target.kind for target in settings.rules.targets(schema())] == ["history", "current"]
    assert (settings.only, settings.way, settings.available_now) == (("public.a*",), "rewrite", False)
    assert (settings.rebuild, settings.retry) == (("a.b",), ("a.c",))
    assert told(capture_file(tmp_path, Path("a log"))).fold == FoldRule()


def test_wrong_files_are_errors_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"TM-CFG-002.*has no spark entry"):
        materialize(capture_file(tmp_path, tmp_path, entry=False))
    with pytest.raises(UsageError, match="TM-CFG-001"):
        materialize(tmp_path / "none.yaml")
    LogBuilder(tmp_path / "log").commit(create(1))
    with pytest.raises(
        UsageError, match=r"TM-CFG-004: --table: public\.itms is not captured \(did you mean public\.items"
    ):
        materialize(capture_file(tmp_path, tmp_path / "log"), tables=["public.items", "public.itms"], master="nowhere")


def test_importing_the_job_and_its_command_imports_neither_spark_nor_arrow() -> None:
    code = (
        "import sys, tidemark.spark_sink.command, tidemark.runtime.cli; tidemark.materialize\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & "
        "{'pyspark', 'py4j', 'pyarrow', 'deltalake', 'pandas', 'numpy', 'yaml', 'docker'}))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.spark
def test_it_keeps_the_tables_of_the_file(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "a log", schema(), schema("public/other"))
    log.commit(create(1), create(2), create(1, table="public/other"))
    path = capture_file(tmp_path, Path("a log"))
    seen = Seen()

    report = materialize(path, spark=spark, tables=["public.it*"], progress=seen)

    assert [(kept.table, kept.kind, kept.rows, kept.error) for kept in report.tables] == [
        ("public.items", "current", 2, None)
    ]
    assert [(one.part.table, one.part.events) for one in seen.parts] == [("public.items", 2)]
    assert [kept.rows for kept in materialize(str(path), spark=spark).tables] == [2, 1]
    assert spark.range(1).count() == 1, "a session that was given is not stopped"


@pytest.mark.spark
def test_it_takes_the_active_session_and_leaves_it_running(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "a log", schema())
    log.commit(create(1))
    before = spark.sparkContext.applicationId

    report = materialize(capture_file(tmp_path, Path("a log")))

    assert [kept.rows for kept in report.tables] == [1]
    assert spark.range(1).count() == 1
    assert spark.sparkContext.applicationId == before


@pytest.mark.spark
def test_a_log_that_is_not_there_is_the_errors_own(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ChangeLogError, match="TM-LOG-001"):
        materialize(capture_file(tmp_path, tmp_path / "none"), spark=spark)
