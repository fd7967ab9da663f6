"""Tables that others restored, copied, deleted, compacted or wrote to."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, errors_of
from tidemark.protocol.changelog import layout

pytestmark = pytest.mark.spark


def grow(lake: KeptLake, start: int) -> None:
    """New rows, changed ones and deleted ones in every table."""
    lake.log.commit(
        *(
            event
            for name in lake.log.schemas
            for event in (
                *(create(id, f"at {start}", table=name) for id in range(start, start + 4)),
                Event("u", {"id": start - 4, "name": f"at {start}"}, ("note",), table=name),
                Event("d", {"id": start - 3}, table=name),
            )
        )
    )


def forget_commits_after(table: Path, version: int) -> None:
    """Leaves a table as a copy made at that version is."""
    for commit in (table / "_delta_log").glob("*.json"):
        if int(commit.stem) > version:
            commit.unlink()


def test_tables_are_healed_from_the_position_of_their_data(lake: KeptLake, tmp_path: Path) -> None:
    names = ("restored", "emptied", "deleted", "copied", "optimized", "untouched")
    for name in names:
        lake.log.change_schema(schema(f"public/{name}"))
    grow(lake, 0)
    lake.keep_well()
    grow(lake, 10)
    lake.keep_well()
    shutil.copytree(lake.warehouse, tmp_path / "another lake")

    for kind in ("current", "history"):
        lake.delta(kind, "public/restored").restore(1)
        lake.delta(kind, "public/emptied").restore(0)
        shutil.rmtree(lake.warehouse / "public/deleted" / kind)
        forget_commits_after(lake.warehouse / "public/copied" / kind, 1)
    assert lake.delta("history", "public/optimized").optimize.compact()["numFilesRemoved"] == 2
    assert lake.rows("current", "public/emptied") == []
    grow(lake, 20)
    lake.keep_well()
    for name in names:
        lake.assert_true(f"public/{name}")

    # Elsewhere, the whole of it goes on from where it was.
    other = KeptLake(lake.log, tmp_path / "another lake", lake.session)
    assert {table.events for table in other.keep_well().tables} == {6}
    for name in names:
        other.assert_true(f"public/{name}")

    # What is restored where the log has nothing new is healed, too.
    lake.delta("current", "public/restored").restore(0)
    lake.keep_well()
    lake.assert_true("public/restored")


def test_a_table_that_others_wrote_to_is_refused_until_it_is_rebuilt_or_restored(lake: KeptLake) -> None:
    names = ("rebuilt", "restored", "swapped", "untouched")
    for name in names:
        lake.log.change_schema(schema(f"public/{name}"))
    grow(lake, 0)
    lake.keep_well("current")
    foreign = pa.table({"id": pa.array([77], pa.int64()), "_offset": pa.array([0], pa.int64())})
    for name in ("rebuilt", "restored"):
        write_deltalake(str(lake.warehouse / "public" / name / "current"), foreign, mode="append", schema_mode="merge")
    swapped = lake.warehouse / "public/swapped/current"
    shutil.rmtree(swapped)
    shutil.copytree(lake.warehouse / "public/untouched/current", swapped)
    grow(lake, 10)

    refused = {"public.rebuilt": "TM-SPK-016", "public.restored": "TM-SPK-016", "public.swapped": "TM-SPK-017"}
    assert errors_of(lake.keep("current")) == refused
    lake.assert_current("public/untouched")

    lake.delta("current", "public/restored").restore(1)
    shutil.rmtree(swapped)
    grow(lake, 20)
    lake.keep_well("current", rebuild=("public.rebuilt",), retry=("public.restored", "public.swapped"))
    for name in names:
        lake.assert_current(f"public/{name}")
    # What was there is somebody's own.
    (aside,) = (lake.warehouse / "public/rebuilt").glob("current.replaced-*")
    assert (aside / "_delta_log").exists()


def test_a_log_that_ends_before_a_table_does_is_another_log(lake: KeptLake) -> None:
    lake.log.commit(create(1))
    lake.log.commit(create(2))
    lake.keep_well("current")
    log = lake.log
    (log.root / layout.COMMITS / layout.commit_name(log.number - 1)).unlink()
    assert errors_of(lake.keep("current")) == {"public.items": "TM-SPK-006"}
    log.events.pop()
    lake.keep_well("current", rebuild=("public.items",))  # As the error says.
    lake.assert_current()


def test_a_log_that_has_grown_differently_gives_its_events_all_the_same(lake: KeptLake) -> None:
    """What the last run knew of the log, that there is nothing more of a table in it, holds no longer."""
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1), create(1, table="public/others"))
    lake.keep_well("current")
    saved = copy_of_log(lake.log)
    for id in range(2, 6):
        lake.log.commit(create(id, table="public/others"))
    lake.keep_well("current")

    restore(lake, saved)
    for id in range(2, 6):
        lake.log.commit(create(id))
    lake.keep("current")
    lake.assert_current()


def copy_of_log(log: LogBuilder) -> LogBuilder:
    """A copy of a log, and of what its builder knows."""
    copied = copy.deepcopy(log)
    copied.root = log.root.with_name("copy")
    shutil.copytree(log.root, copied.root)
    return copied


def restore(lake: KeptLake, saved: LogBuilder) -> None:
    """Puts a copy of the log in the place of the log."""
    root = lake.log.root
    shutil.rmtree(root)
    shutil.copytree(saved.root, root)
    saved.root = root
    lake.log = saved
