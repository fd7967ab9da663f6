from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.spark_sink.log_builder import LogBuilder, create
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.followed_log import FollowedLog, Limits
from tidemark.spark_sink.source.options import ALIASES, NAMES, SourceOptions, resolve_offset, resolve_range
from tidemark.spark_sink.tables.store_place import StorePlace


def test_options_have_no_case_and_defaults(tmp_path: Path) -> None:
    options = SourceOptions.of({"PATH": str(tmp_path), "startingoffset": "5"})

    assert options.log == StorePlace.of(tmp_path)
    assert (options.starting, options.ending) == ("5", "latest")
    assert (options.limits, options.partitions) == (Limits(1_000_000, None), 1)


def test_a_file_url_is_a_path() -> None:
    assert SourceOptions.of({"path": "file:///data/shop.log"}).log == StorePlace("/data/shop.log")


def test_options_of_other_sources_mean_the_same() -> None:
    ours = {"startingOffset": "2", "endingOffset": "latest", "maxEventsPerBatch": "7", "maxBytesPerBatch": "9"}
    theirs = {"startingOffsets": "2", "endingOffsets": "latest", "maxOffsetsPerTrigger": "7", "maxBytesPerTrigger": "9"}

    assert SourceOptions.of({"path": "log", **ours}) == SourceOptions.of({"path": "log", **theirs})
    times = SourceOptions.of({"path": "log", "startingTimestamp": "2026-01-01", "endingTimestamp": "2026-01-02"})
    assert (times.starting, times.ending) == ("2026-01-01", "2026-01-02")
    assert SourceOptions.of({"path": "log", "minPartitions": "8", "failOnDataLoss": "TRUE"}).partitions == 8


def test_every_alias_is_of_an_option() -> None:
    assert set(ALIASES.values()) <= set(NAMES)


def test_what_spark_adds_for_a_table_of_its_catalog_is_let_through() -> None:
    of_spark = {"option.table": "b", "location": "a", "owner": "me", "provider": "tidemark", "comment": "c"}

    assert SourceOptions.of({"path": "a", "table": "b", **of_spark}).table == "b"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "path is missing"),
        ({"path": " "}, "path is missing"),
        ({"path": "log", "paths": '["a", "b"]'}, "give one path"),
        ({"path": "log", "maxEventPerBatch": "5"}, "maxEventPerBatch is unknown; did you mean maxEventsPerBatch"),
        ({"path": "log", "tabel": "x"}, "tabel is unknown; did you mean table"),
        ({"path": "log", "mergeSchema": "true"}, "mergeSchema is unknown; did you mean "),
        ({"path": "log", "maxEventsPerBatch": "0"}, "above zero"),
        ({"path": "log", "maxBytesPerBatch": "1MB"}, "above zero"),
        ({"path": "log", "minPartitions": "-1"}, "above zero"),
        ({"path": "log", "startingOffset": "1", "startingOffsets": "1"}, "startingOffset and startingOffsets are the"),
        ({"path": "log", "startingOffset": "1", "startingTimestamp": "2026-01-01"}, "are the same"),
        ({"path": "log", "maxBytesPerBatch": "1", "maxBytesPerTrigger": "1"}, "are the same"),
        ({"path": "log", "startingOffsets": '{"t": {"0": 23}}'}, "startingOffsets is JSON, .* Kafka"),
        ({"path": "log", "startingTimestamp": "1767225600000"}, "startingTimestamp is a number"),
        ({"path": "log", "failOnDataLoss": "false"}, "failOnDataLoss can only be true"),
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


def test_nobody_knows_what_the_log_will_have(log: LogBuilder) -> None:
    log.commit(create(1))
    followed = FollowedLog(log.root)
    soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()

    for option in ("asOf", "endingOffset", "end"):
        with pytest.raises(SparkError, match=f"TM-SPK-003: option {option} is .*, a time to come"):
            resolve_offset(option, soon, followed)
        assert resolve_offset(option, datetime.now(UTC).isoformat(), followed) == 1
    assert resolve_offset("startingOffset", soon, followed) == 1


def test_a_range_ends_after_its_start(log: LogBuilder) -> None:
    log.commit(create(1), create(2))
    followed = FollowedLog(log.root)

    assert resolve_range(followed, start="1", end="latest") == (1, 2)
    with pytest.raises(SparkError, match="TM-SPK-003: start is 2, after end, which is 1"):
        resolve_range(followed, start="2", end="1")
