"""The page of the metrics, and what it says to alert on."""

from __future__ import annotations

import re

from tests.house import metrics_page
from tidemark.runtime.metrics.names import MATERIALIZE_METRICS, METRICS


def test_it_is_up_to_date() -> None:
    assert metrics_page.main(["--check"]) == 0


def test_every_name_that_the_page_uses_is_one_of_a_metric() -> None:
    used = set(re.findall(r"\btidemark_\w+", metrics_page.PAGE.read_text()))
    assert used == {metric.sample for metric in (*METRICS, *MATERIALIZE_METRICS)}
