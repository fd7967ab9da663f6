"""The page of the metrics, and what it says to alert on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house import metrics_page
from tidemark.runtime.metrics.names import METRICS


def test_it_is_up_to_date() -> None:
    assert metrics_page.main(["--check"]) == 0


def test_another_one_is_noticed_and_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "metrics.md"
    page.write_text(metrics_page.PAGE.read_text().replace("(gauge)", "(counter)"))
    assert metrics_page.main(["--check"], page) == 1
    assert "metrics.md is out of date" in capsys.readouterr().err
    assert metrics_page.main([], page) == 0
    assert page.read_text() == metrics_page.PAGE.read_text()


def test_every_name_that_the_page_uses_is_one_of_a_metric() -> None:
    used = set(re.findall(r"\btidemark_\w+", metrics_page.PAGE.read_text()))
    assert used == {metric.sample for metric in METRICS}
