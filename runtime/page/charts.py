"""The charts of the last hour, with what they show in words: no figure is in a picture alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.runtime.page.history import Sample
from tidemark.runtime.progress.quantities import duration, size

UNKNOWN = "unknown"


def rows_per_second(count: float) -> str:
    """A rate of rows: ``12/s``, and ``0.3/s`` where it is small."""
    return f"{count:,.1f}/s" if 0 < count < 10 else f"{count:,.0f}/s"


def bytes_per_second(count: float) -> str:
    """A rate of bytes."""
    return f"{size(count)}/s"


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure over time.

    Attributes:
        name: Of the attribute of ``Sample``, and of its place in the page.
        words: A value for people.
    """

    name: str
    words: Callable[[float], str]

    def value(self, sample: Sample) -> float | None:
        """The value of one moment; None if it was unknown."""
        value: float | None = getattr(sample, self.name)
        return value

    def as_json(self, samples: Sequence[Sample]) -> dict[str, Any]:
        """What all samples show: the last, the lowest and the highest value, in words."""
        known = [value for sample in samples if (value := self.value(sample)) is not None]
        last = self.value(samples[-1]) if samples else None
        return {
            "name": self.name,
            "last": self._in_words(last),
            "lowest": self._in_words(min(known, default=None)),
            "highest": self._in_words(max(known, default=None)),
        }

    def _in_words(self, value: float | None) -> str:
        return UNKNOWN if value is None else self.words(value)


LAG = Chart("lag", duration)
ROWS = Chart("rows", rows_per_second)
BYTES = Chart("bytes", bytes_per_second)
RETAINED = Chart("retained", size)


def history_json(charts: Sequence[Chart], samples: Sequence[Sample], after: int) -> dict[str, Any]:
    """The charts, and the samples that the page does not have yet.

    Args:
        charts: Which there are; the values and words of a sample are in their order.
        samples: All.
        after: The number of the last one that the page has; 0 for none.
    """
    span = samples[-1].time - samples[0].time if samples else 0.0
    return {
        "charts": [chart.as_json(samples) for chart in charts],
        "first": samples[0].number if samples else 0,
        "span": duration(span),
        "samples": [_as_json(charts, sample) for sample in samples if sample.number > after],
    }


def _as_json(charts: Sequence[Chart], sample: Sample) -> dict[str, Any]:
    values = [chart.value(sample) for chart in charts]
    return {
        "number": sample.number,
        "time": sample.time,
        "values": values,
        "words": [
            UNKNOWN if value is None else chart.words(value) for chart, value in zip(charts, values, strict=True)
        ],
    }
