"""What a machine lacks. Tests that need it are skipped, and a run ends with a line for each such thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

_PROVIDED_BY = "; to have it: "

DOCKER_ENGINE = f"no Docker engine answers{_PROVIDED_BY}apt-get install docker.io, then start dockerd"

OTHER_READERS = f"there are no DuckDB and Polars{_PROVIDED_BY}make readers"


def lacks(what: str, provided_by: str) -> str:
    """The reason to skip a test: what the machine lacks, and the command or setting that would provide it."""
    return f"{what}{_PROVIDED_BY}{provided_by}"


def summary(reports: Iterable[Any]) -> Iterator[str]:
    """The lines about the skipped tests of a run: what the machine lacks, and how many cases its servers do not have.

    Args:
        reports: pytest's reports of skipped tests; their ``longrepr`` is a path, a line, and the reason.
    """
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.most_common():
        if _PROVIDED_BY in reason:
            yield f"{count:5}  {reason}"
    others = sum(count for reason, count in reasons.items() if _PROVIDED_BY not in reason)
    if others:
        yield f"{others:5}  cases of other products, versions and builds than those here (-rs lists them)"
