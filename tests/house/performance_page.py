"""The results in docs/performance.md, from those that ``make performance`` keeps.

python -m tests.house.performance_page          write them
python -m tests.house.performance_page --check  write nothing; exit 1 if they are out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from benchmarks.results import OURS, RESULTS
from tests.house.files import ROOT
from tests.house.written_page import write_or_check

PAGE = ROOT / "docs" / "performance.md"

PLACES = re.compile(r"(?<=<!-- results: )(\w+)( -->\n).*?(?=<!-- /results -->)", re.DOTALL)

CLEARLY = 1.05
"""Runs of one side differ by as much."""

LEAST = 0.05
"""Processor time is counted in hundredths of a second: smaller differences tell nothing."""

Record = Mapping[str, Any]
"""As ``benchmarks.results`` keeps it."""


def page(results: Mapping[str, Any], path: Path = PAGE) -> str:
    """The page with its results as they have to be.

    Args:
        results: As ``benchmarks.performance`` keeps them, by the benchmark's name.
    """
    others: dict[str, Callable[[Mapping[str, Any]], str]] = {"warning": _warning, "machine": _machines}

    def written(place: re.Match[str]) -> str:
        name = place[1]
        content = others[name](results) if name in others else "\n".join(_answer(name, results))
        return name + place[2] + (content and f"{content}\n")

    return PLACES.sub(written, path.read_text(encoding="utf-8"))


def ahead(record: Record) -> Iterator[str]:
    """A sentence for each peer that takes clearly less than one of our sides, in whatever measure."""
    ours = {name: measures for name, measures in record["sides"].items() if name.startswith(OURS)}
    for peer, theirs in record["sides"].items():
        if peer not in ours:
            worse = {name: ", ".join(_worse(measures, theirs)) for name, measures in ours.items()}
            if told := "; of ".join(f"`{name}`: {more}" for name, more in worse.items() if more):
                yield f"{record['what']}: **{peer} is ahead** of {told}."


def _worse(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Iterator[str]:
    for measure, mine in ours.items():
        other = theirs.get(measure, mine)
        if mine > CLEARLY * other and mine - other > LEAST:
            times = f" ({mine / other:.3g} times)" if other else ""
            yield f"{_number(mine)} against {_number(other)} {measure}{times}"


def _answer(name: str, results: Mapping[str, Any]) -> Iterator[str]:
    """Tables, and what has to be said of them."""
    if name not in results:
        yield f"Not measured yet: `make performance NAME={name}` does it."
        return
    records = results[name]["records"]
    for heads, alike in groupby(records, _heads):
        yield f"| | | {' | '.join(heads)} |"
        yield f"|---|---|{'---:|' * len(heads)}"
        for record in alike:
            yield from _rows(record, heads)
        yield ""
    for record in records:
        yield from (f"- {sentence}" for sentence in ahead(record))
        yield from (f"- {record['what']}: {peer} was left out, as {why}." for peer, why in record["skipped"].items())


def _heads(record: Record) -> tuple[str, ...]:
    """Of a record's columns, after what was done and by whom."""
    sides, first = record["sides"], next(iter(record["sides"]))
    if record["count"] > 1:
        each = f"µs a {record['unit'].removesuffix('s')}"
        return (f"{record['unit']} a second", f"its processor, {each}", f"the server's, {each}", f"as fast as {first}")
    measures = dict.fromkeys(measure for measures in sides.values() for measure in measures)
    return (*measures, f"of {first}") if len(sides) > 1 else (*measures,)


def _rows(record: Record, heads: tuple[str, ...]) -> Iterator[str]:
    what, count = record["what"], record["count"]
    for side, measures in record["sides"].items():
        ratio = "" if record["ratio"][side] is None else f"{record['ratio'][side]:.2f}"
        if count > 1:
            seconds, *processor = measures.values()
            cells = [f"{count / seconds:,.0f}", *(f"{one / count * 1e6:.2f}" for one in processor), ratio]
        else:
            cells = [_number(measures[head]) if head in measures else "" for head in heads]
            cells[-1] = cells[-1] or ratio
        yield f"| {what} | {f'**{side}**' if side.startswith(OURS) else side} | {' | '.join(cells)} |"
        what = ""


def _warning(results: Mapping[str, Any]) -> str:
    quick = [f"`{name}`" for name, result in results.items() if result["quick"]]
    if not quick:
        return ""
    return (
        "> **Some of these figures are no measure of tidemark.** With small sizes, to try how they are run, ran\n"
        f"> {', '.join(quick)}. There the start of processes takes most of the time."
    )


def _machines(results: Mapping[str, Any]) -> str:
    kinds: dict[str, list[str]] = {}
    for name, result in results.items():
        facts = "\n".join(f"| {fact} | {value} |" for fact, value in result["machine"].items())
        kinds.setdefault(facts, []).append(f"`{name}`")
    tables = {f"Of {', '.join(names)}:\n\n": f"| | |\n|---|---|\n{facts}" for facts, names in kinds.items()}
    return "\n\n".join(tables.values() if len(tables) == 1 else map("".join, tables.items()))


def _number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Writes or checks the page. Returns the exit status."""
    content = page(orjson.loads(RESULTS.read_bytes()), path)
    return write_or_check(path, content, "tests.house.performance_page", arguments)


if __name__ == "__main__":
    sys.exit(main())
