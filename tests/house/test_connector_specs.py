"""connectors/ holds what ``tests.house.connector_specs`` writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import connector_specs
from tidemark.captures.process.connector import APPLIED
from tidemark.protocol.codec import decode_response, encode
from tidemark.protocol.messages import Applied


def test_the_answers_are_in_step_with_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert connector_specs.main(["--check"]) == 0, capsys.readouterr().err


def test_check_names_what_is_out_of_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connectors = tmp_path / "connectors"
    assert connector_specs.main([], connectors) == 0
    assert connector_specs.main(["--check"], connectors) == 0
    (connectors / "mysql" / "spec.json").write_text("{}")
    assert connector_specs.main(["--check"], connectors) == 1
    told = "connectors/mysql/spec.json is out of date; run: python -m tests.house.connector_specs\n"
    assert capsys.readouterr().err == told


def test_the_answer_to_apply_is_the_message_without_a_change() -> None:
    assert encode(Applied()) == APPLIED
    assert decode_response(APPLIED) == Applied()
