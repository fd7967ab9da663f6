"""The generations whose events make the rows of a table, as of a moment of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from tidemark.protocol.changelog.columns.evolution import fits
from tidemark.protocol.changelog.models import KnownGeneration, Segment, Summary, TableSchema


@dataclass(frozen=True, slots=True)
class Shown:
    """What readers of a table's rows look at: one generation, or several, each laid over those before.

    While a table is read again, its old rows stay, and the new generation's events are applied over them as they come.
    Once that is whole, it alone is shown: rows whose ``_offset`` is below its begin are no longer in the table.

    Attributes:
        generations: In order. The first is the last one that is whole; while none ever was, the first that grows.
        schemas: Of their events, from the oldest to the newest.
    """

    generations: tuple[KnownGeneration, ...]
    schemas: tuple[TableSchema, ...]

    @property
    def oldest(self) -> KnownGeneration:
        """The generation under all others."""
        return self.generations[0]

    @property
    def newest(self) -> KnownGeneration:
        """The generation whose events come last."""
        return self.generations[-1]

    @property
    def over(self) -> int:
        """The number of the generation over which the newest one is laid; 0 where it is shown alone."""
        return self.oldest.number if len(self.generations) > 1 else 0

    @property
    def begins(self) -> frozenset[int]:
        """Offsets of each ``t`` with which a generation begins that is laid over others: it empties nothing."""
        return frozenset(one.begin for one in self.generations[1:])

    def events(self, segments: Iterable[Segment]) -> tuple[Segment, ...]:
        """Those of a table's segments that have an event to apply."""
        ends = {one.number: inf if one.shown_until is None else one.shown_until for one in self.generations}
        begins = self.begins
        return tuple(
            one
            for one in segments
            if one.generation in ends and one.first_offset < ends[one.generation] and one.last_offset not in begins
        )

    def truncated_at(self, segment: Segment) -> int | None:
        """The offset of a segment's last event that empties the table."""
        return None if segment.truncated_at in self.begins else segment.truncated_at

    def goes_on_from(self, generation: int, over: int) -> bool:
        """Whether a table with rows of a generation, laid over another one (0: over none), lacks later events at most.

        It may be ahead: what was laid over other rows may turn out not to fit them. Then it stays as it is.
        """
        known = generation in self.numbers or generation > self.newest.number
        return known and (over or generation) <= self.oldest.number

    def stale_below(self, generation: int, over: int) -> int:
        """The offset below which rows of such a table are to go: what they were under is whole. 0 where none are."""
        return self.oldest.begin if generation in self.numbers and 0 < over < self.oldest.number else 0

    @property
    def numbers(self) -> frozenset[int]:
        """The generations' numbers."""
        return frozenset(one.number for one in self.generations)


def shown(summary: Summary, collection: str) -> Shown | None:
    """What is shown of a collection; None where it has no event.

    A later generation is laid over the last whole one if all rows of that fit its key and columns. One that does not
    fit is left out until it is whole. While none ever was whole, it takes the place of those before at once.
    """
    known = summary.generations.get(collection)
    if not known or collection not in summary.totals:
        return None
    found = [known[0]]
    for later in known[1:]:
        if fits(_schemas(summary, found), _since_it_began(summary, later)):
            found.append(later)
        elif known[0].whole is None:
            found = [later]
    return _of(summary, found)


def newest_alone(summary: Summary, collection: str) -> Shown | None:
    """The generation of a collection that began last, also while it is not whole; None where it has no event."""
    newest = summary.newest(collection)
    return None if newest is None or collection not in summary.totals else _of(summary, [newest])


def _of(summary: Summary, generations: Sequence[KnownGeneration]) -> Shown:
    # Without an event of theirs, it is the schema of the collection.
    schemas = _schemas(summary, generations) or [summary.schemas[summary.totals[generations[0].collection].fingerprint]]
    return Shown(tuple(generations), tuple(schemas))


def _since_it_began(summary: Summary, generation: KnownGeneration) -> list[TableSchema]:
    """The schemas of a generation, the one under which it began first. That may have come again after others."""
    first = [summary.schemas[generation.begun_under]] if generation.begun_under is not None else []
    return [*first, *_schemas(summary, [generation])]


def _schemas(summary: Summary, generations: Sequence[KnownGeneration]) -> list[TableSchema]:
    return [summary.schemas[fingerprint] for one in generations for fingerprint in one.fingerprints]
