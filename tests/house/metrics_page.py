"""The tables of docs/metrics.md, from the metrics' names.

python -m tests.house.metrics_page          write them
python -m tests.house.metrics_page --check  write nothing; exit 1 if they are out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.house.files import ROOT
from tests.house.written_page import write_or_check
from tidemark.runtime.metrics.names import MATERIALIZE_METRICS, METRICS, Metric

PAGE = ROOT / "docs" / "metrics.md"

_TABLES = re.compile(r"(?<=`python -m tests\.house\.metrics_page`\. -->\n).*?(?=<!-- /metrics -->)", re.DOTALL)


def table(metrics: Iterable[Metric]) -> str:
    """A row for each metric."""
    rows = [_row(metric) for metric in metrics]
    return "\n".join(["| metric | labels | |", "|---|---|---|", *rows]) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.sample}` ({metric.kind}) | {labels} | {metric.help} |"


def page(path: Path = PAGE) -> str:
    """The page with its tables as they have to be."""
    tables = iter(map(table, (METRICS, MATERIALIZE_METRICS)))
    content, count = _TABLES.subn(lambda _: next(tables), path.read_text(encoding="utf-8"))
    assert count == 2, f"{path.name} has no place for both tables"
    return content


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Writes or checks the page. Returns the exit status."""
    return write_or_check(path, page(path), "tests.house.metrics_page", arguments)


if __name__ == "__main__":
    sys.exit(main())
