"""What was measured: printed for who runs a benchmark, and kept as records, which docs/performance.md is made of.

The first side of a record is what all are compared with: a peer, or a limit. Of each measure less is better.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import orjson

from benchmarks.processor_time import Spent

T = TypeVar("T")

RESULTS = Path(__file__).with_name("results.json")
"""What ``benchmarks.performance`` keeps."""

OURS = "tidemark"
"""How the names of our sides begin."""

RECORDS = "TIDEMARK_BENCH_RECORDS"
"""The variable that names the file to which records are appended, a line of JSON each. Without it none are kept."""


def in_turn(sides: Mapping[str, Callable[[], Spent]], rounds: int) -> dict[str, list[Spent]]:
    """Runs the sides one after the other, and all of them so many times."""
    taken: dict[str, list[Spent]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            taken[name].append(run())
    return taken


def middle(runs: Sequence[Spent]) -> Spent:
    """The medians of some runs."""
    return Spent(*(statistics.median(getattr(run, part) for run in runs) for part in ("seconds", "ours", "server")))


def report(
    what: str,
    taken: Mapping[str, Sequence[Spent]],
    count: int = 1,
    unit: str = "rows",
    skipped: Mapping[str, str] | None = None,
) -> None:
    """Prints and keeps the medians of each side.

    Args:
        what: What was done, and with what.
        taken: The runs of each side.
        count: How much there was to do.
        unit: Of what.
        skipped: Why a peer was left out, by its name.
    """
    print(what)
    found = {name: middle(runs) for name, runs in taken.items()}
    first = next(iter(found.values()))
    for name, one in found.items():
        if count > 1:
            rate = f"{count / one.seconds:>11,.0f} {unit}/s  {first.seconds / one.seconds:5.2f} of the first  "
            used = f"{one.ours / count * 1e6:,.2f} + {one.server / count * 1e6:,.2f} us of processor each"
        else:
            rate, used = f"{one.seconds:8.2f} s  ", f"{one.ours:,.2f} + {one.server:,.2f} s of processor"
        spread = f"({min(run.seconds for run in taken[name]):.2f} to {max(run.seconds for run in taken[name]):.2f} s)"
        print(f"  {name:<44} {rate}{used} (its own, the server's)  {spread}", flush=True)
    for name, why in (skipped or {}).items():
        print(f"  {name:<44} left out: {why}")
    names = ("seconds", "processor seconds", "processor seconds of the server")
    measures = {side: dict(zip(names, (one.seconds, one.ours, one.server), strict=True)) for side, one in found.items()}
    note(what, measures, count=count, unit=unit, rounds=len(next(iter(taken.values()))), skipped=skipped or {})


def note(what: str, sides: Mapping[str, Mapping[str, float]], **more: Any) -> None:
    """Keeps a record of sides with measures of any names, and prints nothing. ``more`` is what ``report`` takes."""
    if RECORDS not in os.environ:
        return
    record = {"what": what, "count": 1, "unit": "rows", "rounds": 1, "skipped": {}, **more}
    firsts = {name: next(iter(measures.values())) for name, measures in sides.items()}
    record["sides"] = {side: {of: float(f"{one:.4g}") for of, one in each.items()} for side, each in sides.items()}
    record["ratio"] = {name: _ratio(next(iter(firsts.values())), one, record["count"]) for name, one in firsts.items()}
    with Path(os.environ[RECORDS]).open("ab") as file:
        file.write(orjson.dumps(record) + b"\n")


def had(name: str, get: Callable[[], T], skipped: dict[str, str]) -> T | None:
    """A peer; None where it cannot be had, and then it is noted why."""
    try:
        return get()
    except (ImportError, LookupError) as error:
        skipped[name] = str(error)
        return None


def _ratio(first: float, other: float, count: int) -> float | None:
    """How much faster than the first where rates are told, and how much longer or more where they are not."""
    above, below = (first, other) if count > 1 else (other, first)
    return round(above / below, 3) if below else None
