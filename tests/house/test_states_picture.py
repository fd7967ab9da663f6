"""The picture of the states of a table's capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import states_picture


def test_it_is_up_to_date() -> None:
    assert states_picture.main(["--check"]) == 0


def test_another_one_is_noticed_and_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "running.md"
    page.write_text(states_picture.PAGE.read_text().replace("Away --> LeftOut", "LeftOut --> Away"))
    assert states_picture.main(["--check"], page) == 1
    assert "running.md is out of date" in capsys.readouterr().err
    assert states_picture.main([], page) == 0
    assert page.read_text() == states_picture.PAGE.read_text()


def test_every_state_leads_to_another_and_none_to_itself() -> None:
    ways = [line.split(":")[0].split() for line in states_picture.picture().splitlines() if " --> " in line]
    names = {state.__name__ for state in states_picture.STATES}
    assert {first for first, _, _ in ways} == names | {"[*]"} and {last for _, _, last in ways} == names
    assert all(first != last for first, _, last in ways)


def test_no_label_has_what_ends_one_in_mermaid() -> None:
    labels = [line.partition(": ")[2] for line in states_picture.picture().partition("```\n")[0].splitlines()]
    assert any(labels) and not any(set(label) & set(":;") for label in labels)
