"""Orders in the change log's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.messages import Action, Control
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.steering.orders import FOLDER, Orders

PAUSE = Control(sequence=1, action=Action.PAUSE, tables=["public.t"])
RESUME = Control(sequence=1, action=Action.RESUME)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A change log without a commit."""
    with LogWriter.open(tmp_path / "log", "shop"):
        return tmp_path / "log"


def test_orders_are_numbered_in_turn_and_kept(root: Path) -> None:
    assert [Orders(root).give(PAUSE), Orders(root).give(RESUME)] == [1, 2]
    assert [(order.sequence, order.action, order.tables) for order in Orders(root).waiting(0)] == [
        (1, Action.PAUSE, ["public.t"]),
        (2, Action.RESUME, []),
    ]
    assert [order.sequence for order in Orders(root).waiting(1)] == [2]


def test_what_was_handled_is_forgotten_and_its_number_never_given_again(root: Path) -> None:
    orders = Orders(root)
    orders.give(PAUSE)
    orders.give(RESUME)
    with LogWriter.open(root, "shop") as writer:
        writer.commit(writer.begin(), {"control": 2}, 1)
    orders.forget(2)
    assert orders.waiting(0) == []
    assert orders.give(PAUSE) == 3


def test_a_file_that_is_no_order_is_named(root: Path) -> None:
    orders = Orders(root)
    orders.give(PAUSE)
    path = root / FOLDER / "00000000000000000001.json"
    path.write_text('{"sequence":1,"action":"dance"}')
    with pytest.raises(ChangeLogError, match=path.name) as raised:
        orders.waiting(0)
    assert raised.value.code == "TM-LOG-002"


def test_an_order_needs_a_change_log(tmp_path: Path) -> None:
    with pytest.raises(ChangeLogError) as raised:
        Orders(tmp_path / "none").give(PAUSE)
    assert raised.value.code == "TM-LOG-001"
