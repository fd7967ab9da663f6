"""Names of files: injective, inside the log, and fit for file systems."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.changelog import layout

collections = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("/.%_=- aA"), max_size=30) | st.text(
    st.sampled_from("/.%2Ee-"), max_size=12
)


@given(collections, collections)
def test_two_collections_never_share_a_folder(left: str, right: str) -> None:
    folders = [str(PurePosixPath(layout.segment_path(name, 1, 1, 0)).parent) for name in (left, right)]
    assert (folders[0] == folders[1]) == (left == right)


@given(collections)
def test_a_segment_lies_inside_data(collection: str) -> None:
    path = layout.segment_path(collection, 42, 3, 7)
    parts = PurePosixPath(path).parts
    assert path == "/".join(parts)  # nothing collapses: no empty parts, no dots
    assert parts[0] == "data"
    assert len(parts) == collection.count("/") + 3
    assert all(part.isascii() and part.isprintable() and len(part) <= 255 for part in parts)
    assert not any(part.startswith(".") or set(part) & set('=[]{}*?\\,:"<>|') for part in parts)
    assert layout.segment_origin(parts[-1]) == (42, 3)


@pytest.mark.parametrize(
    ("collection", "folder"),
    [
        ("public/orders", "data/public/orders"),
        ("public/Order Items", "data/public/Order Items"),
        ("a.b/c", "data/a%2Eb/c"),
        ("../etc", "data/%2E%2E/etc"),
        ("", "data/%"),
        ("a//b", "data/a/%/b"),
        ("a%2Fb", "data/a%252Fb"),
        ("day=1", "data/day%3D1"),
        ("数", "data/%E6%95%B0"),
    ],
)
def test_folders(collection: str, folder: str) -> None:
    assert layout.segment_path(collection, 1, 2, 3) == f"{folder}/00000000000000000001-2-3.parquet"


def test_long_names_stay_apart_and_short_enough() -> None:
    names = ["é" * 60 + end for end in ("", "x", "y")] + ["é" * 59 + "ê"]
    folders = {PurePosixPath(layout.segment_path(name, 1, 1, 0)).parent.name for name in names}
    assert len(folders) == len(names)
    assert max(map(len, folders)) <= 200


@given(collections, collections)
def test_two_consumers_never_share_a_file(left: str, right: str) -> None:
    names = [layout.consumer_name(name) for name in (left, right)]
    assert (names[0] == names[1]) == (left == right)
    assert all(len(PurePosixPath(name).parts) == 1 and len(name) <= 255 for name in names)
    assert all(name.endswith(".json") and not name.startswith(".") for name in names)


@given(st.integers(0, 10**20 - 1))
def test_numbers_in_names(number: int) -> None:
    assert layout.commit_number(layout.commit_name(number)) == number
    assert layout.commit_number(layout.summary_name(number)) is None


@pytest.mark.parametrize(
    "name", ["", "1.json", ".00000000000000000001.json.tmp", "0000000000000000000a.json", "x.parquet"]
)
def test_other_files_have_no_number(name: str) -> None:
    assert layout.commit_number(name) is None
    assert layout.segment_origin(name) is None
