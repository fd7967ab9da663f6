"""How large files are to be."""

from __future__ import annotations

import pytest

from tests.spark_sink.log_builder import Event, LogBuilder, create
from tidemark.spark_sink.formats.file_sizes import FileSizes

SIZES = FileSizes()
KB, MB, GB, TB = 2**10, 2**20, 2**30, 2**40


@pytest.mark.parametrize(
    ("table", "loaded", "changing", "appended"),
    [
        (0, 16 * MB, 256 * KB, 16 * MB),
        (16 * MB, 16 * MB, 256 * KB, 16 * MB),
        (256 * MB, 16 * MB, 4 * MB, 16 * MB),
        (1 * GB, 16 * MB, 16 * MB, 16 * MB),
        (16 * GB, 16 * MB, 16 * MB, 16 * MB),
        (32 * GB, 32 * MB, 16 * MB, 32 * MB),
        (256 * GB, 64 * MB, 32 * MB, 128 * MB),
        (100 * TB, 64 * MB, 64 * MB, 128 * MB),
    ],
)
def test_one_changed_row_never_rewrites_100_mb(table: int, loaded: int, changing: int, appended: int) -> None:
    assert (SIZES.loaded(table, keyed=True), SIZES.changing(table)) == (loaded, changing)
    assert SIZES.loaded(table, keyed=False) == appended
    assert SIZES.changing(table) <= SIZES.loaded(table, keyed=True) < 100 * MB


def test_changes_come_into_smaller_files_than_a_backfill(log: LogBuilder) -> None:
    backfill = log.commit(*(create(id, snapshot=True) for id in range(10)), create(10)).segments
    changes = log.commit(*(create(id, snapshot=True) for id in range(3)), *(Event("u", {"id": id}) for id in range(4)))
    table = 256 * GB
    assert SIZES.of_part(backfill, table, keyed=True) == SIZES.loaded(table, keyed=True)
    assert SIZES.of_part(changes.segments, table, keyed=True) == SIZES.changing(table)
    assert SIZES.of_part(changes.segments, table, keyed=False) == SIZES.loaded(table, keyed=False)
