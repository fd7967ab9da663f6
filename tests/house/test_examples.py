"""The examples, and the code that documents show, run on a real change log."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from tests.house.files import ROOT, blocks
from tests.runtime.changelog.compaction.logs import compact
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
from tidemark.protocol.changelog import ChangeLog
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.testing.missing import OTHER_READERS


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """``shop.log``: three orders created, one of them deleted in a commit of its own."""
    root = tmp_path / "shop.log"
    with LogWriter.open(root, "shop") as writer:
        orders = writer.bind(ORDERS, ORDER_SCHEMA, ["id"])
        for documents in ([order(1, note="a"), order(2, note="b"), order(3)], [order(2, "d")]):
            batch = writer.begin()
            batch.add(orders, documents)
            writer.commit(batch, {}, checkpoints=1)
    return root


def test_the_commits_name_the_segments_as_the_page_says(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, by_hand, with_tidemark = blocks(ROOT / "docs" / "changelog.md", "python")
    monkeypatch.chdir(log.parent)
    names: dict[str, Any] = {}
    exec(by_hand, names)  # noqa: S102 - what the page shows is what is tested
    assert [path.as_posix() for path in names["segments"]] == [
        f"shop.log/{segment.path}" for commit in ChangeLog(log).commits() for segment in commit.segments
    ]
    assert [pq.read_metadata(path).num_rows for path in names["segments"]] == [3, 1]
    exec(with_tidemark, names)  # noqa: S102
    assert names["rows"].num_rows == 1, "the rows of the last segment"


@pytest.mark.parametrize("grace", [timedelta(), timedelta(hours=1)])
def test_the_page_finds_the_segments_of_a_compacted_log(
    log: Path, monkeypatch: pytest.MonkeyPatch, grace: timedelta
) -> None:
    with LogWriter.open(log, "shop") as writer:
        orders = writer.bind(ORDERS, ORDER_SCHEMA, ["id"])
        for number in range(20):
            batch = writer.begin()
            batch.add(orders, [order(number)])
            writer.commit(batch, {}, checkpoints=1)
        assert compact(writer, grace=grace) > 10
    _, by_hand, _ = blocks(ROOT / "docs" / "changelog.md", "python")
    monkeypatch.chdir(log.parent)
    names: dict[str, Any] = {}
    exec(by_hand, names)  # noqa: S102 - what the page shows is what is tested
    offsets = [offset for path in names["segments"] for offset in pq.read_table(path)["_offset"].to_pylist()]
    assert offsets == list(range(24))


def test_others_read_an_exported_log_as_the_page_says(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("polars", "duckdb"):
        pytest.importorskip(package, reason=OTHER_READERS)
    by_others, *_ = blocks(ROOT / "docs" / "changelog.md", "python")
    monkeypatch.chdir(log.parent)
    command = [sys.executable, "-m", "tidemark.runtime", "log", "export", "shop.log", "--delta", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [orjson.loads(line)["files"] for line in done.stdout.splitlines()] == [2]
    names: dict[str, Any] = {}
    exec(by_others, names)  # noqa: S102 - what the page shows is what is tested
    assert len(names["events"]) == 4
    assert sum(pq.read_metadata(file).num_rows for file in names["files"]) == 4


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.drawn(4, of="a JVM of its own")
def test_read_changes_counts_and_shows_events(log: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "examples" / "read_changes.py", "shop.log", "public.orders"],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    counts = {
        tuple(line.split("|")[1:4]) for line in ended.stdout.replace(" ", "").splitlines() if line.count("|") == 6
    }
    assert ("c", "false", "3") in counts or ("c", "NULL", "3") in counts, ended.stdout
    assert ("d", "false", "1") in counts or ("d", "NULL", "1") in counts, ended.stdout
