from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import SparkError
from spark_sink.source.followed_log import FollowedLog, Limits
from spark_sink.source.options import SourceOptions, resolve_offset
from tests.spark_sink.log_builder import LogBuilder, create


def test_options_have_no_case_and_defaults(tmp_path: Path) -> None:
    options = SourceOptions.of({"PATH": str(tmp_path), "startingoffset": "5"})

    assert options.path == tmp_path
    assert (options.starting, options.ending) == ("5", "latest")
    assert options.limits == Limits(1_000_000, None)


def test_a_file_url_is_a_path() -> None:
    assert SourceOptions.of({"path": "file:///data/shop.log"}).path == Path("/data/shop.log")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "path is missing"),
        ({"path": "s3://bucket/shop.log"}, "directories only"),
        ({"path": "log", "maxEventPerBatch": "5"}, "did you mean maxEventsPerBatch"),
        ({"path": "log", "maxEventsPerBatch": "0"}, "above zero"),
        ({"path": "log", "maxBytesPerBatch": "1MB"}, "above zero"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(options: dict[str, str], says: str) -> None:
    with pytest.raises(SparkError, match=f"TM-SPK-003.*{says}"):
        SourceOptions.of(options)


def test_the_table_is_required_where_it_is_used() -> None:
    with pytest.raises(SparkError, match=r"TM-SPK-003.*table is missing"):
        SourceOptions.of({"path": "log"}).required_table()


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("earliest", 0),
        ("LATEST", 6),
        ("4", 4),
        ("2025-12-31", 0),
        ("2026-01-01T00:00:01Z", 2),
        ("2026-01-01T00:00:01.5", 4),
        ("2026-01-01T01:00:02+01:00", 4),
        ("2026-01-02", 6),
    ],
)
def test_an_offset_is_a_word_a_number_or_a_time(log: LogBuilder, text: str, offset: int) -> None:
    for second in range(3):
        log.commit(create(2 * second), create(2 * second + 1))

    assert resolve_offset("startingOffset", text, FollowedLog(log.root)) == offset


@pytest.mark.parametrize(("text", "code"), [("7", "TM-SPK-006"), ("yesterday", "TM-SPK-003"), ("-1", "TM-SPK-003")])
def test_an_offset_that_cannot_be_is_an_error(log: LogBuilder, text: str, code: str) -> None:
    log.commit(create(1))

    with pytest.raises(SparkError, match=f"{code}.*startingOffset"):
        resolve_offset("startingOffset", text, FollowedLog(log.root))
