"""What a store promises, in a directory and in a bucket of a real server."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidemark.protocol.store import Store
from tidemark.protocol.store.objects import PART_BYTES
from tidemark.protocol.store.opening import opened
from tidemark.testing.object_store import S3Server

NAMES = ["a b%é", "a+b", "a-b", "a.b", "a/b", "a/c/d", "a0", "ä"]
"""In the order of their bytes."""


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return opened(tmp_path / "store")
    server: S3Server = request.getfixturevalue("s3")
    return opened(f"s3://{server.bucket()}/some/place", server.settings)


def test_of_many_creators_one_succeeds(store: Store) -> None:
    def create(number: int) -> bool:
        try:
            store.create("commits/7.json", b"%d" % number)
        except FileExistsError as error:
            assert error.filename == store.where("commits/7.json")
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(create, range(8)))
    assert created.count(True) == 1
    assert store.read("commits/7.json") == b"%d" % created.index(True)
    assert [entry.path for entry in store.list("")] == ["commits/7.json"]


def test_names_are_listed_in_the_order_of_their_bytes(store: Store) -> None:
    assert list(store.list("")) == []
    for name in reversed(NAMES):
        store.create(name, name.encode())
    assert [(entry.path, entry.size) for entry in store.list("")] == [(name, len(name.encode())) for name in NAMES]
    for place, name in enumerate(NAMES):
        assert [entry.path for entry in store.list("", after=name)] == NAMES[place + 1 :]
    assert [entry.path for entry in store.list("a")] == ["a/b", "a/c/d"]
    assert [entry.path for entry in store.list("a", after="a/b")] == ["a/c/d"]
    assert list(store.list("nothing")) == []


def test_a_file_is_read_as_a_whole_and_in_part(store: Store) -> None:
    store.create("a", b"0123456789")
    assert (store.read("a"), store.size("a"), store.exists("a")) == (b"0123456789", 10, True)
    assert [store.read("a", 3, 4), store.read("a", 8, 4), store.read("a", 8), store.read("a", 10)] == [
        *(b"3456", b"89", b"89", b""),
    ]
    assert store.read("a", 2, 0) == b""
    store.replace("a", b"new")
    store.replace("b/c", b"first")
    assert (store.read("a"), store.read("b/c")) == (b"new", b"first")


def test_what_is_not_there(store: Store) -> None:
    for ask in (lambda: store.read("a/b"), lambda: store.read("a/b", 1, 2), lambda: store.size("a/b")):
        with pytest.raises(FileNotFoundError) as caught:
            ask()
        assert caught.value.filename == store.where("a/b") and caught.value.strerror
    assert not store.exists("a/b")
    store.delete("a/b")
    store.create("a/b", b"x")
    store.delete("a/b")
    store.delete("a/b")
    assert not store.exists("a/b") and list(store.list("")) == []


def test_a_large_file_is_written_piece_by_piece(store: Store) -> None:
    piece = bytes(range(256)) * 4096
    pieces = 2 * PART_BYTES // len(piece) + 1
    upload = store.upload("data/large")
    assert [upload.write(memoryview(piece)) for _ in range(pieces)] == [len(piece)] * pieces
    assert upload.finish() == pieces * len(piece)
    store.sync(["data/large"])
    assert store.size("data/large") == pieces * len(piece)
    assert store.read("data/large", PART_BYTES - 1, 3) == b"\xff\x00\x01"
    store.upload("data/empty").finish()
    assert store.read("data/empty") == b""


@pytest.mark.parametrize("finished", [False, True])
def test_a_discarded_file_is_not_there(store: Store, finished: bool) -> None:
    upload = store.upload("data/x")
    upload.write(b"x" * 1000)
    if finished:
        upload.finish()
    upload.discard()
    assert not store.exists("data/x")


def test_unfinished_files_of_a_directory_are_not_listed(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.create("a", b"")
    (tmp_path / ".0123456789abcdef.tmp").write_bytes(b"unfinished")
    assert [entry.path for entry in store.list("")] == ["a"]


def test_a_folder_counts_as_durable_once_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path / "store")
    synced: list[Path] = []
    sync, broken = os.fsync, [tmp_path / "store" / "data"]

    def noted(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path in broken:
            raise OSError(errno.EIO, "it cannot be synced")
        synced.append(path)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    store.upload("data/shop/a").finish()
    with pytest.raises(OSError, match="it cannot be synced") as caught:
        store.sync(["data/shop/a"])
    assert caught.value.filename == store.where("data")
    assert tmp_path in synced, "the store's own name"
    broken.clear()
    for expected in (["", "data", "data/shop", "data/shop/a"], ["data/shop", "data/shop/a"]):
        synced.clear()
        store.sync(["data/shop/a"])
        assert sorted(synced) == [tmp_path / "store" / name for name in expected]


def test_a_create_whose_answer_was_lost_has_succeeded(s3: S3Server) -> None:
    store = opened(f"s3://{s3.bucket()}", s3.settings)
    store.create("a", b"written by an earlier try")
    store.create("a", b"written by an earlier try")
    with pytest.raises(FileExistsError):
        store.create("a", b"written by another")


def test_a_refusal_shows_no_key(s3: S3Server) -> None:
    bucket = s3.bucket()
    nobody = opened("s3://no-such-bucket-of-ours/x", s3.settings)
    with pytest.raises(OSError, match=r"(?s)^(?!.*X-Amz)(?!.*Signature)") as caught:
        nobody.create("a", b"")
    assert s3.secret not in str(caught.value) and caught.value.filename == "s3://no-such-bucket-of-ours/x/a"
    assert s3.secret not in repr(s3.settings) + repr(opened(f"s3://{bucket}", s3.settings))
