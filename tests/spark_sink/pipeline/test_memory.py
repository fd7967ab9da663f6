"""What a pipeline remembers is a hint."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.errors import ChangeLogError, SparkError
from tidemark.spark_sink.pipeline.memory import Memory, SetAside, TableMemory
from tidemark.spark_sink.tables.store_place import StorePlace

texts = st.text("ab'\"\\\n{}ü", max_size=8)

memories = st.builds(
    Memory,
    tables=st.dictionaries(
        texts,
        st.builds(
            TableMemory,
            complete_to=st.integers(0, 2**62),
            set_aside=st.none()
            | st.builds(
                SetAside,
                kind=st.just("SparkError"),
                code=st.sampled_from(["TM-SPK-005", "TM-SPK-010", "TM-SPK-016"]),
                message=texts,
                remedy=texts,
                since=st.just(datetime(2026, 1, 1, tzinfo=UTC)),
            ),
        ),
        max_size=3,
    ),
)


@given(memory=memories)
def test_what_is_saved_is_loaded(tmp_path_factory: pytest.TempPathFactory, memory: Memory) -> None:
    path = tmp_path_factory.mktemp("memory") / "log-1" / "tables.json"

    memory.save(StorePlace.of(path.parent))

    assert Memory.load(StorePlace.of(path.parent)) == memory
    assert [found.name for found in path.parent.iterdir()] == ["tables.json"]


@given(memory=memories, keep=st.floats(0, 0.99))
def test_of_a_file_that_was_cut_nothing_is_believed(
    tmp_path_factory: pytest.TempPathFactory, memory: Memory, keep: float
) -> None:
    path = tmp_path_factory.mktemp("memory") / "tables.json"
    memory.save(StorePlace.of(path.parent))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])

    assert Memory.load(StorePlace.of(path.parent)) == Memory()


def test_an_error_is_remembered_as_it_was() -> None:
    error = ChangeLogError("TM-LOG-009", "a segment is missing")
    remembered = SetAside.model_validate_json(SetAside.of(error).model_dump_json())

    assert (type(remembered.error), str(remembered.error)) == (ChangeLogError, str(error))
    assert remembered.since <= datetime.now(UTC)


@pytest.mark.parametrize(("code", "a_person"), [("TM-SPK-010", False), ("TM-SPK-013", False), ("TM-SPK-016", True)])
def test_an_error_that_only_a_person_can_mend_is_not_tried_again(code: str, a_person: bool) -> None:
    assert SetAside.of(SparkError(code, "what happened")).needs_a_person is a_person


def test_writers_at_once_do_not_hinder_each_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "log-1" / "tables.json"
    memories = [Memory(commit=number) for number in range(8)]

    def save_often(memory: Memory) -> set[int]:
        seen = set()
        for _ in range(50):
            memory.save(StorePlace.of(path.parent))
            seen.add(Memory.load(StorePlace.of(path.parent)).commit)
        return seen

    with ThreadPoolExecutor(len(memories)) as writers:
        seen = set().union(*writers.map(save_often, memories))

    assert caplog.messages == []
    assert seen <= {memory.commit for memory in memories}  # -1 would be a file that was missing or cut.
    assert [found.name for found in path.parent.iterdir()] == ["tables.json"]


def test_a_place_that_cannot_be_written_or_read_is_a_warning_that_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "tables.json"

    Memory(commit=3).save(StorePlace.of(path.parent))
    assert Memory.load(StorePlace.of(path.parent)) == Memory()

    assert caplog.messages == [
        f"{path} cannot be written: Not a directory",
        f"{path} cannot be read, and is taken for empty: Not a directory",
    ]
