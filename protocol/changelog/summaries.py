"""What the commits of a change log come to: each makes one summary another."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.protocol.changelog.log_start import later_start
from tidemark.protocol.changelog.models import CollectionTotals, Commit, KnownGeneration, Replacement, Segment, Summary
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.state import merge_patch

CLAIMS_KEPT = 1000
"""How many writers a summary remembers the first commit of, so that it does not grow with every restart."""


def advance(summary: Summary, commit: Commit) -> Summary:
    """The summary after one more commit.

    Raises:
        ChangeLogError: ``TM-LOG-002`` when the commit does not follow on.
    """
    first, begun = commit.number, {commit.epoch: commit.number}
    if isinstance(commit, CompactedCommit):
        first, begun = commit.first, commit.claims
        commit = commit.model_copy(update={"segments": commit.as_written()})
    follows = first == summary.number + 1 and commit.first_offset == summary.next_offset
    if not follows or commit.epoch < summary.epoch:
        name = layout.commit_name(commit.number)
        raise ChangeLogError("TM-LOG-002", f"{layout.COMMITS}/{name} does not follow commit {summary.number}")
    totals = dict(summary.totals)
    for segment in commit.segments:
        before = totals.get(segment.collection, CollectionTotals())
        totals[segment.collection] = CollectionTotals(
            events=before.events + segment.rows,
            bytes=before.bytes + segment.size,
            fingerprint=segment.fingerprint,
        )
    for collection, fingerprint in commit.announced.items():
        before = totals.get(collection, CollectionTotals())
        totals[collection] = before.model_copy(update={"fingerprint": fingerprint})
    claims = summary.claims
    if commit.epoch > summary.epoch:
        claims = dict([*claims.items(), *begun.items()][-CLAIMS_KEPT:])
    change = commit.state
    state = merge_patch(summary.state, change.updated) if change.merge_patch else change.updated
    if not isinstance(state, dict):
        name = layout.commit_name(commit.number)
        raise ChangeLogError("TM-LOG-002", f"{layout.COMMITS}/{name} has a state that is not an object")
    start = later_start(summary.log_start, commit.log_start)
    replacements = with_replacements(summary.replacements, commit.replacements)
    return Summary(
        number=commit.number,
        epoch=commit.epoch,
        time=commit.time,
        next_offset=commit.next_offset,
        claims=claims,
        state=state,
        schemas={**summary.schemas, **commit.schemas},
        totals=totals,
        generations=_generations(summary, commit),
        replacements=[one for one in replacements if one.last >= start.number],
        log_start=start,
    )


def with_replacements(known: Sequence[Replacement], added: Sequence[Replacement]) -> list[Replacement]:
    """The replacements that stand after more of them, in order: of two for one commit it is the one for more."""
    found = list(known)
    for one in added:
        if not any(other.first <= one.first and one.last <= other.last for other in found):
            found = [other for other in found if not one.first <= other.first <= one.last]
            found.append(one)
    return sorted(found, key=lambda one: one.first)


def _generations(summary: Summary, commit: Commit) -> dict[str, list[KnownGeneration]]:
    """The generations after one more commit.

    Raises:
        ChangeLogError: ``TM-LOG-002`` when the commit names one that does not follow on.
    """
    found = dict(summary.generations)
    for collection in {*(one.collection for one in commit.generations), *(one.collection for one in commit.segments)}:
        found[collection] = list(found.get(collection, []))
    for stated in commit.generations:
        known = found[stated.collection]
        place = next((place for place, one in enumerate(known) if one.number == stated.number), len(known))
        if place < len(known):
            whole = stated.whole if known[place].whole is None else known[place].whole
            known[place] = known[place].model_copy(update={"whole": whole})
        elif stated.number == (known[-1].number + 1 if known else 1):
            known[-1:] = [_ended(one, stated.begin) for one in known[-1:]]
            known.append(KnownGeneration(**stated.model_dump()))
        else:
            name = layout.commit_name(commit.number)
            raise ChangeLogError(
                "TM-LOG-002", f"{layout.COMMITS}/{name} names generation {stated.number} of {stated.collection}"
            )
    for segment in commit.segments:
        known = found[segment.collection]
        if not known:
            # In a log of version 2, or where nobody says when the table is being read: it counts as whole.
            first = segment.first_offset
            known.append(KnownGeneration(collection=segment.collection, number=1, begin=first, whole=first))
        for place, one in enumerate(known):
            if one.number == segment.generation:
                known[place] = _with_segment(one, segment)
        if segment.generation is None:
            place = max((place for place, one in enumerate(known) if one.begin <= segment.first_offset), default=0)
            limit = known[place].shown_until
            known[place] = _ended(known[place], segment.first_offset).model_copy(
                update={"shown_until": commit.first_offset if limit is None else limit}
            )
    for stated in commit.generations:
        found[stated.collection] = _needed(found[stated.collection])
    for collection, fingerprint in commit.announced.items():
        if known := list(found.get(collection, ())):
            found[collection] = [*known[:-1], _with_schema(known[-1], fingerprint)]
    return found


def _ended(generation: KnownGeneration, offset: int) -> KnownGeneration:
    """The generation, whose collection has an event of none or of a later one at this offset."""
    ended = offset if generation.ended is None else min(offset, generation.ended)
    return generation.model_copy(update={"ended": ended})


def _needed(generations: list[KnownGeneration]) -> list[KnownGeneration]:
    """The last one that is whole, and all later ones."""
    whole = [place for place, one in enumerate(generations) if one.whole is not None]
    return generations[whole[-1] :] if whole else generations


def _with_segment(generation: KnownGeneration, segment: Segment) -> KnownGeneration:
    return _with_schema(generation, segment.fingerprint).model_copy(
        update={"events": generation.events + segment.rows, "bytes": generation.bytes + segment.size}
    )


def _with_schema(generation: KnownGeneration, fingerprint: str) -> KnownGeneration:
    known = [*(f for f in generation.fingerprints if f != fingerprint), fingerprint]
    first = generation.begun_under or known[0]
    return generation.model_copy(update={"fingerprints": known, "begun_under": first})


def with_generations(summary: Summary) -> Summary:
    """A summary of version 2 with what it does not say: each table has one generation, which is whole."""
    if summary.generations or not summary.totals:
        return summary
    generations = {}
    for collection, totals in summary.totals.items():
        schemas = [f for f, schema in summary.schemas.items() if schema.collection == collection]
        generations[collection] = [
            KnownGeneration(
                collection=collection,
                number=1,
                begin=0,
                whole=0,
                fingerprints=[*(f for f in schemas if f != totals.fingerprint), totals.fingerprint],
                events=totals.events,
                bytes=totals.bytes,
            )
        ]
    return summary.model_copy(update={"generations": generations})
