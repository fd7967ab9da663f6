from __future__ import annotations

import pytest

from tidemark.backfill.chunk_size import ChunkSize


def test_grows_at_most_twofold_to_the_target() -> None:
    size = ChunkSize(1.0, start=1_000, largest=50_000)
    sizes = []
    for _ in range(8):
        size.measured(size.rows, size.rows / 10_000)
        sizes.append(size.rows)
    assert sizes == [2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000, 10_000]


def test_shrinks_at_most_fourfold() -> None:
    size = ChunkSize(0.5, start=8_000, smallest=100)
    size.measured(8_000, 60.0)
    assert size.rows == 2_000
    size.measured(2_000, 2.0)
    assert size.rows == 500


def test_stays_between_its_bounds() -> None:
    size = ChunkSize(start=100, smallest=60, largest=150)
    size.measured(100, 0.0)
    assert size.rows == 150
    for _ in range(5):
        size.failed()
    assert size.rows == 60


def test_a_read_cut_short_counts_by_its_speed() -> None:
    size = ChunkSize(1.0, start=1_000)
    size.measured(400, 1.0)
    assert size.rows == 400


def test_a_chunk_without_rows_says_nothing() -> None:
    size = ChunkSize(start=1_000)
    size.measured(0, 3.0)
    assert size.rows == 1_000


def test_no_more_rows_than_fit() -> None:
    size = ChunkSize(1.0, start=1_000, largest_bytes=100_000)
    size.measured(1_000, 0.1, size=200_000)
    assert size.rows == 500
    size.measured(500, 0.1, size=50_000)
    assert size.rows == 1_000
    size.measured(1, 0.1, size=1_000_000)
    assert size.rows == 1


def test_rows_that_a_condition_left_out_take_no_room() -> None:
    """But those of the next chunk may all meet it."""
    size = ChunkSize(1.0, start=1_000, largest_bytes=100_000)
    size.measured(1_000, 0.1, found=0)
    assert size.rows == 2_000
    size.measured(2_000, 0.2, found=10, size=2_000)
    assert size.rows == 500


def test_failure_shrinks() -> None:
    size = ChunkSize(start=1_000, smallest=1)
    size.failed()
    assert size.rows == 250


def test_fixed_size_never_changes() -> None:
    size = ChunkSize(fixed=77)
    size.measured(77, 100.0)
    size.failed()
    assert size.rows == 77


@pytest.mark.parametrize(
    ("target_seconds", "bounds"),
    [(0.0, {}), (1.0, {"smallest": 0}), (1.0, {"start": 5}), (1.0, {"largest": 10, "start": 20}), (1.0, {"fixed": 0})],
)
def test_nonsense_is_refused(target_seconds: float, bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="positive target"):
        ChunkSize(target_seconds, **bounds)
