"""Two writers of one log: the newer one has it, the older one fails loudly, and nothing of either is mixed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, data_files, named_files, order, stored
from tests.runtime.changelog.writers import check, lines, writing
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import LOCK
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.writer import LogWriter


def on_another_machine(root: Path) -> None:
    """Makes the next writer one that our lock does not reach: it finds another lock file."""
    (root / LOCK).unlink()


@pytest.mark.heavy
def test_two_processes(tmp_path: Path) -> None:
    root = tmp_path / "log"
    with writing(root, 1) as old:
        old_output = lines(old)
        assert next(old_output) == ["open", "1"]
        while next(old_output)[:2] != ["commit", "3"]:
            pass
        on_another_machine(root)
        with writing(root, 2) as new:
            new_output = lines(new)
            assert next(new_output) == ["open", "2"]
            assert [words for words in old_output if words[0] != "commit"] == [["error", "TM-LOG-007"]]
            assert old.wait() == 1
            for _ in range(3):
                assert next(new_output)[0] == "commit"
            new.kill()
            newest = max([int(words[1]) for words in new_output], default=0)
    check(root, newest)
    epochs = [commit.epoch for commit in ChangeLog(root).commits()]
    assert epochs == sorted(epochs)
    assert [event["id"] for event in stored(root)] == list(range(len(stored(root))))


def test_a_fenced_writer_says_so_and_leaves_the_newer_ones_files(tmp_path: Path) -> None:
    old = LogWriter.open(tmp_path, "shop")
    orders = old.bind(ORDERS, ORDER_SCHEMA)
    stale = old.begin()
    stale.add(orders, [order(id) for id in range(70_000)])
    on_another_machine(tmp_path)
    with LogWriter.open(tmp_path, "shop") as new:
        # The sweep took the old one's file; it does not know, writes on, and fails where it counts.
        batch = new.begin()
        batch.add(orders, [order(id) for id in range(70_000)])
        assert len(data_files(tmp_path)) == 1
        stale.add(orders, [order(1)])
        with pytest.raises(ChangeLogError) as caught:
            old.commit(stale, {"mine": "old"}, 1)
        assert caught.value.code == "TM-LOG-007"
        old.close()
        new.commit(batch, {"mine": "new"}, 1)
    assert ChangeLog(tmp_path).summary().state == {"mine": "new"}
    assert data_files(tmp_path) == named_files(tmp_path)
    assert len(stored(tmp_path)) == 70_000


def test_a_fenced_writer_with_nothing_to_write_is_fenced_too(tmp_path: Path) -> None:
    old = LogWriter.open(tmp_path, "shop")
    on_another_machine(tmp_path)
    with LogWriter.open(tmp_path, "shop"):
        batch = old.begin()
        with pytest.raises(ChangeLogError) as caught:
            old.commit(batch, {}, 1)
        assert caught.value.code == "TM-LOG-007"
        assert "epoch 1" in caught.value.message
        # Nothing can be committed by it any more: not the same batch, and not one in its place.
        with pytest.raises(ValueError, match="after a failure"):
            old.commit(batch, {}, 1)
        batch.discard()
        with pytest.raises(ValueError, match="after a failure"):
            old.commit(old.begin(), {}, 1)
        old.close()


@pytest.mark.parametrize("commits", [0, 2])
def test_a_writer_does_not_go_on_behind_an_earlier_copy(tmp_path: Path, commits: int) -> None:
    root, copy = tmp_path / "log", tmp_path / "copy"
    with LogWriter.open(root, "shop") as writer:
        orders = writer.bind(ORDERS, ORDER_SCHEMA)
        for number in range(3):
            if number == commits:
                shutil.copytree(root, copy)
            batch = writer.begin()
            batch.add(orders, [order(number)])
            writer.commit(batch, {"orders": number}, 1)
        shutil.rmtree(root)
        shutil.copytree(copy, root)
        batch = writer.begin()
        batch.add(orders, [order(3)])
        with pytest.raises(ChangeLogError) as caught:
            writer.commit(batch, {"orders": 3}, 1)
        assert caught.value.code == "TM-LOG-013" and "a copy from before" in caught.value.message
    with LogWriter.open(root, "shop") as again:
        assert again.state == ({"orders": commits - 1} if commits else {})
    assert [event["id"] for event in stored(root)] == list(range(commits))


def test_a_log_that_was_taken_away_has_disappeared(tmp_path: Path) -> None:
    root = tmp_path / "log"
    with LogWriter.open(root, "shop") as writer:
        shutil.rmtree(root)
        with pytest.raises(ChangeLogError, match="has disappeared") as caught:
            writer.commit(writer.begin(), {"orders": 1}, 1)
        assert caught.value.code == "TM-LOG-013"
    assert not root.exists()
