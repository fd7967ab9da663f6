"""The page of measured performance: what the results say, and above all where somebody else is ahead."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.performance import ROOT, RUNS
from tests.house import performance_page
from tests.house.performance_page import CLEARLY, LEAST, PAGE, PLACES, ahead, page

SECONDS = st.floats(min_value=0.01, max_value=1000).map(lambda value: float(f"{value:.4g}"))
MEASURES = st.fixed_dictionaries(
    {"seconds": SECONDS, "processor seconds": SECONDS, "processor seconds of the server": SECONDS}
)


def record(peer: dict[str, float], ours: dict[str, float], **more: Any) -> dict[str, Any]:
    sides = {"psql COPY by hand": peer, "tidemark": ours}
    shared = {"what": "2,000 rows", "count": 2000, "unit": "rows", "rounds": 1, "skipped": {}}
    return {**shared, "sides": sides, "ratio": {"psql COPY by hand": 1.0, "tidemark": 0.5}, **more}


def results(*records: dict[str, Any], quick: bool = False) -> dict[str, Any]:
    return {"first_capture": {"quick": quick, "seconds": 1, "machine": {"cores": 2}, "records": list(records)}}


def test_it_is_up_to_date() -> None:
    assert performance_page.main(["--check"]) == 0


@given(MEASURES, MEASURES)
def test_each_measure_in_which_a_peer_is_ahead_is_told_and_no_other(
    peer: dict[str, float], ours: dict[str, float]
) -> None:
    told = " ".join(ahead(record(peer, ours)))
    wanted = {
        measure for measure, mine in ours.items() if mine > CLEARLY * peer[measure] and mine - peer[measure] > LEAST
    }
    assert set(re.findall(r"against \S+ ([a-z ]+)(?= \(|,|;|\.)", told)) == wanted
    assert ("**psql COPY by hand is ahead** of `tidemark`:" in told) == bool(wanted)
    assert (told in page(results(record(peer, ours)))) and page(results(record(peer, ours))).count(
        "is ahead**"
    ) == bool(wanted)


def test_both_sides_stand_in_the_table_and_in_the_sentence() -> None:
    peer = {"seconds": 2.0, "processor seconds": 3.0, "processor seconds of the server": 1.0}
    ours = {"seconds": 4.0, "processor seconds": 1.5, "processor seconds of the server": 1.0}
    written = page(results(record(peer, ours)))
    assert "| 2,000 rows | psql COPY by hand | 1,000 | 1500.00 | 500.00 | 1.00 |" in written
    assert "|  | **tidemark** | 500 | 750.00 | 500.00 | 0.50 |" in written
    assert "- 2,000 rows: **psql COPY by hand is ahead** of `tidemark`: 4 against 2 seconds (2 times)." in written


def test_a_peer_that_could_not_be_had_is_named_with_the_reason() -> None:
    equal = {"seconds": 1.0, "processor seconds": 1.0, "processor seconds of the server": 1.0}
    written = page(results(record(equal, equal, skipped={"dlt": "there is no dlt"})))
    assert "- 2,000 rows: dlt was left out, as there is no dlt." in written


@pytest.mark.parametrize("quick", [True, False])
def test_small_sizes_are_said(quick: bool) -> None:
    equal = {"seconds": 1.0, "processor seconds": 1.0, "processor seconds of the server": 1.0}
    assert ("no measure of tidemark" in page(results(record(equal, equal), quick=quick))) == quick


def test_measures_without_a_rate_stand_as_they_are() -> None:
    sides = {"a limit": {"milliseconds": 1.5}, "tidemark": {"milliseconds": 3.0, "rows read again": 0}}
    one = {**record({}, {}), "count": 1, "sides": sides, "ratio": {"a limit": 1.0, "tidemark": 2.0}}
    assert "|  | **tidemark** | 3 | 0 | 2.00 |" in page(results(one))
    assert list(ahead(one)) == ["2,000 rows: **a limit is ahead** of `tidemark`: 3 against 1.5 milliseconds (2 times)."]


def test_the_page_has_a_place_for_each_benchmark_that_is_run() -> None:
    places = {place[1] for place in PLACES.finditer(PAGE.read_text(encoding="utf-8"))}
    assert places == {module.rpartition(".")[2] for module in RUNS} | {"warning", "machine"}
    assert [module for module in RUNS if not (ROOT / "benchmarks" / f"{module.replace('.', '/')}.py").is_file()] == []


def test_what_was_not_measured_is_said() -> None:
    assert page({}).count("Not measured yet") == len(RUNS)
