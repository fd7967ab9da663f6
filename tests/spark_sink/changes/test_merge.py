"""The kernel against a plain replay: any sources, any events, any pieces that they come in."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.spark_sink.changes.event_stream import EventStream
from tidemark.spark_sink.changes.key_order import in_order, is_ascending, place, place_of
from tidemark.spark_sink.changes.merge import merge
from tidemark.spark_sink.changes.sources import BackfilledRun, BaseFile, Reading, SourceGroup, SourceReader
from tidemark.spark_sink.parts.ranges import key_ranges
from tidemark.spark_sink.tables.column_types import arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace

COLUMNS = {"tenant": "string", "id": "bigint", "name": "string", "note": "string", "_offset": "bigint"}
KEY = ("tenant", "id")
EVENTS = {**COLUMNS, "_op": "string", "_unchanged": "array<string>"}
SEGMENT = {
    **COLUMNS, "_op": "string", "_commit_ts": "timestamp", "_loc": "string", "_txid": "string",
    "_snapshot": "boolean", "_before": "string", "_unchanged": "array<string>",
}  # fmt: skip

Key = tuple[str | None, int]


class Files:
    """Takes rows as a table's files."""

    def __init__(self) -> None:
        self.files: list[list[pa.Table]] = [[]]

    def write(self, rows: pa.Table) -> None:
        self.files[-1].append(rows)

    def cut(self) -> None:
        self.files.append([])

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for file in self.files for rows in file for row in rows.to_pylist()]


def order(key: Key) -> Any:
    return place(key)


def event_batches(events: Sequence[dict[str, Any]], size: int) -> Iterator[pa.RecordBatch]:
    ordered = sorted(events, key=lambda event: (order((event["tenant"], event["id"])), event["_offset"]))
    yield from pa.Table.from_pylist(list(ordered), arrow_schema(EVENTS)).to_batches(max_chunksize=size)


def row(key: Key, offset: int, chance: random.Random) -> dict[str, Any]:
    names = {"name": f"name {chance.randrange(100)}", "note": chance.choice([None, f"note {chance.randrange(100)}"])}
    return {"tenant": key[0], "id": key[1], **names, "_offset": offset}


def random_event(key: Key, offset: int, chance: random.Random) -> dict[str, Any]:
    match chance.choice("cuuppd"):
        case "d":
            return {"tenant": key[0], "id": key[1], "_offset": offset, "_op": "d"}
        case "p":
            lacking = chance.choice([["note"], ["name"], ["name", "note"]])
            carried = {n: v for n, v in row(key, offset, chance).items() if n not in lacking}
            return {**carried, "_op": "u", "_unchanged": lacking}
        case op:
            return {**row(key, offset, chance), "_op": op}


def replayed(rows: dict[Key, dict[str, Any]], events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table and of a backfill, and events, all in the order of their offsets."""
    steps = [(r["_offset"], k, {**r, "_op": "c"}) for k, r in rows.items()]
    steps += [(e["_offset"], (e["tenant"], e["id"]), e) for e in events]
    state: dict[Key, dict[str, Any]] = {}
    for offset, key, event in sorted(steps, key=lambda step: step[0]):
        before = state.pop(key, {})
        if event["_op"] != "d":
            unchanged = event.get("_unchanged") or []
            kept = {name: (before if name in unchanged else event).get(name) for name in ("name", "note")}
            state[key] = {"tenant": key[0], "id": key[1], **kept, "_offset": offset}
    return [state[key] for key in sorted(state, key=order)]


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    held=st.integers(0, 60),
    events=st.integers(0, 120),
    pieces=st.integers(1, 9),
    batch=st.integers(1, 40),
    in_memory=st.integers(1, 50),
    small=st.sampled_from([0, 10**9]),
    cuts=st.integers(0, 5),
)
def test_merging_is_replaying(
    tmp_path_factory: Any,
    seed: int,
    held: int,
    events: int,
    pieces: int,
    batch: int,
    in_memory: int,
    small: int,
    cuts: int,
) -> None:
    folder: Path = tmp_path_factory.mktemp("merge")
    chance = random.Random(seed)
    keys: list[Key] = [(tenant, id) for tenant in (None, "a", "b", "ü") for id in range(25)]
    present = sorted(chance.sample(keys, held), key=order)
    offsets = chance.sample(range(1000), held + events)
    happened = [random_event(chance.choice(keys), offset, chance) for offset in offsets[held:]]
    edges = sorted(chance.sample(range(held + 1), min(pieces, held + 1)))
    groups: list[SourceGroup] = []
    rows: dict[Key, dict[str, Any]] = {}
    of_files: dict[str, list[dict[str, Any]]] = {}
    for number, (start, end) in enumerate(zip([0, *edges], [*edges, held], strict=True)):
        if start == end:
            continue
        members = present[start:end]
        path = f"{number}.parquet"
        if chance.random() < 0.5:  # a file of the table, older than all events
            chunk = [row(key, -1 - place, chance) for place, key in enumerate(members)]
            shuffled = chance.sample(chunk, len(chunk)) if chance.random() < 0.2 else chunk
            pq.write_table(pa.Table.from_pylist(shuffled, arrow_schema(COLUMNS)), folder / path)
            of_files[path] = chunk
            source: BaseFile | BackfilledRun = BaseFile(path, (folder / path).stat().st_size, len(chunk))
        else:  # backfilled rows, between which others lie
            chunk = [row(key, offsets[start + place], chance) for place, key in enumerate(members)]
            chunk = [{**r, "_offset": o} for r, o in zip(chunk, sorted(r["_offset"] for r in chunk), strict=True)]
            first, last = chunk[0]["_offset"], chunk[-1]["_offset"]
            stored = [{**r, "_op": "c", "_snapshot": True} for r in chunk]
            stored += [{**e, "_snapshot": False} for e in happened if first < e["_offset"] < last]
            stored.sort(key=lambda r: r["_offset"])
            pq.write_table(pa.Table.from_pylist(stored, arrow_schema(SEGMENT)), folder / path, row_group_size=7)
            file = SegmentFile(path, len(stored), first, last, (folder / path).stat().st_size)
            source = BackfilledRun(file, first, last, len(chunk), file.size)
        rows |= {(r["tenant"], r["id"]): r for r in chunk}
        groups.append(SourceGroup(place(members[0]), place(members[-1]), (source,)))
    files = Files()
    reader = SourceReader(StorePlace.of(folder), StorePlace.of(folder), COLUMNS, KEY, Reading())
    removed: set[str] = set()
    for one in key_ranges(groups, sorted(map(place, chance.sample(keys, cuts))), 1, 1 if cuts else 10**9):
        own = [e for e in happened if one.low <= place((e["tenant"], e["id"]))]
        own = [e for e in own if one.high is None or place((e["tenant"], e["id"])) < one.high]
        stream = EventStream(event_batches(own, batch), KEY, rows=in_memory)
        removed.update(merge(one.groups, stream, KEY, list(COLUMNS), reader, files, small, one.low, one.high))
        files.cut()
    untouched = [r for path, chunk in of_files.items() if path not in removed for r in chunk]
    result = sorted(files.rows + untouched, key=lambda r: order((r["tenant"], r["id"])))
    assert result == replayed(rows, happened)
    written = [(r["tenant"], r["id"]) for r in files.rows]
    assert written == sorted(written, key=order)
    # No file spans one that stayed.
    for pieces_of_file in files.files:
        if pieces_of_file:
            newest = pieces_of_file[-1]
            first_key, last_key = place_of(pieces_of_file[0], KEY, 0), place_of(newest, KEY, newest.num_rows - 1)
            stayed = [order((r["tenant"], r["id"])) for r in untouched]
            assert not [key for key in stayed if first_key < key < last_key]


def test_changes_find_their_rows_in_whatever_batch_these_are_read(tmp_path: Path) -> None:
    """A file is read in batches of 65,536 rows."""
    count = 140_000
    ids = pa.array(range(0, 2 * count, 2))
    unchanging = {"tenant": pa.repeat(pa.scalar("a"), count), "note": pa.nulls(count, pa.string())}
    columns = {**unchanging, "id": ids, "name": ids.cast(pa.string()), "_offset": pa.repeat(pa.scalar(-1), count)}
    pq.write_table(pa.table(columns).select(list(COLUMNS)).cast(arrow_schema(COLUMNS)), tmp_path / "file.parquet")
    group = SourceGroup((), (), (BaseFile("file.parquet", 10**6, count),))
    edges = [0, 1, 65_534, 65_535, 65_536, 65_537, 100_000, 131_071, 131_072, count - 1]
    deleted, updated = {2 * place for place in edges[::2]}, {2 * place for place in edges[1::2]}
    inserted = {2 * place + 1 for place in edges[::3]}
    events = [{"id": id, "_op": "d"} for id in deleted]
    events += [{"id": id, "_op": "u", "name": "new"} for id in updated | inserted]
    for gone, new in ((deleted, updated), (deleted, updated | inserted)):
        happened = [
            {"tenant": "a", "_offset": offset, **event}
            for offset, event in enumerate(events)
            if event["id"] in gone | new
        ]
        files = Files()
        reader = SourceReader(StorePlace.of(tmp_path), StorePlace.of(tmp_path), COLUMNS, KEY, Reading())

        merge([group], EventStream(event_batches(happened, 4), KEY), KEY, list(COLUMNS), reader, files, 0)

        rows = pa.concat_tables(files.files[0])
        expected = {id: str(id) for id in range(0, 2 * count, 2) if id not in gone} | dict.fromkeys(new, "new")
        assert rows["id"].to_pylist() == sorted(expected)
        assert rows["name"].to_pylist() == [expected[id] for id in sorted(expected)]


@given(
    counts=st.lists(st.integers(1, 30), max_size=12),
    batch=st.integers(1, 10),
    most=st.integers(1, 20),
    bound=st.none() | st.integers(0, 12),
)
def test_a_stream_gives_whole_keys(counts: list[int], batch: int, most: int, bound: int | None) -> None:
    events = [
        {"tenant": None, "id": id, "_op": "u", "_offset": 100 * id + n, "name": f"{n}", "_unchanged": ["note"]}
        for id, count in enumerate(counts)
        for n in range(count)
    ]
    stream = EventStream(event_batches(events, batch), KEY, rows=most)
    limit = None if bound is None else order((None, bound))
    taken: list[int] = []
    while (some := stream.take(limit)) is not None:
        assert is_ascending(in_order(some, KEY).select([*KEY, "_offset"]), [*KEY, "_offset"])
        ids: list[Any] = some["id"].to_pylist()
        assert not set(ids) & set(taken)
        # What a key's events come down to is always there, however few are left of them.
        for id in set(ids):
            last = max(r["_offset"] for r in some.to_pylist() if r["id"] == id)
            assert last == 100 * id + counts[id] - 1
        taken.extend(ids)
    assert sorted(set(taken)) == [id for id in range(len(counts)) if bound is None or id < bound]
    following = stream.next_key()
    assert following == (order((None, bound)) if bound is not None and bound < len(counts) else None)
