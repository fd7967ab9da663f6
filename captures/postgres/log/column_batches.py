"""Gathers rows of the log for a batch of columns: see ``tidemark.protocol.batches``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from tidemark.backfill.keys import Key
from tidemark.captures.postgres.log.open_transaction import OpenTransaction, WaitingRow
from tidemark.captures.postgres.rows.generated_source import MISFITS
from tidemark.captures.postgres.rows.log_columns import Events
from tidemark.captures.postgres.tables.bound_relations import BoundRelation
from tidemark.captures.rows.gathered_columns import GatheredColumns
from tidemark.captures.rows.log_parts import LogMeta

Incomplete = tuple[int, Key, OpenTransaction]
"""Binding and key of a row that came to that key without all of its columns, and its transaction."""


class ColumnBatches:
    """Makes one batch after another."""

    def __init__(self) -> None:
        self._gathered = GatheredColumns[BoundRelation]()

    def add(self, rows: Sequence[WaitingRow]) -> list[Incomplete] | None:
        """Adds rows, in their order. None, and nothing is added, if they are to be lines."""
        relations, messages, lsns, places, transactions = zip(*rows, strict=True)
        numbers = _by_relation(relations)
        if not self._gathered.are_enough(len(rows), len(numbers)) or not self._gathered.takes(numbers):
            return None
        decoded: list[tuple[BoundRelation, Sequence[int], Events]] = []
        for relation, of in numbers.items():
            assert relation.decoder.columns is not None
            try:
                own = messages if len(numbers) == 1 else [messages[number] for number in of]
                decoded.append((relation, of, relation.decoder.columns.events(own)))
            except MISFITS:
                self._gathered.refuse(relation)
                return None
        size = sum(map(len, messages)) + sum(events.json_size for _, _, events in decoded)
        if not self._gathered.has_room(size):
            return None
        counts = _counts(len(rows), [[of[at] for at in events.of] for _, of, events in decoded if events.of])
        incomplete: list[Incomplete] = []
        for relation, of, events in decoded:
            incomplete += [(relation.binding, key, transactions[of[at]]) for at, key in events.incomplete]
            assert relation.decoder.columns is not None
            part = self._gathered.part(relation, relation.decoder.columns.cells)
            part.add(events.columns, _meta(of, self._gathered.events, counts, events, lsns, places, transactions))
        self._gathered.added(size)
        return incomplete

    def take(self) -> list[bytes]:
        """The line of the batch and its streams; nothing if it has no rows. Another one begins."""
        return self._gathered.take()


def _by_relation(relations: Sequence[BoundRelation]) -> dict[BoundRelation, Sequence[int]]:
    """The numbers of each relation's rows."""
    if len(set(relations)) == 1:
        return {relations[0]: range(len(relations))}
    numbers: dict[BoundRelation, list[int]] = {}
    for number, relation in enumerate(relations):
        numbers.setdefault(relation, []).append(number)
    return dict(numbers)


def _counts(rows: int, of_events: Sequence[Sequence[int]]) -> list[int] | None:
    """How many events come before each row. None if each row is one event."""
    if not of_events:
        return None
    counts = [1] * rows
    for of in of_events:
        for one, other in pairwise(of):
            counts[one] += one == other
    return list(accumulate(counts, initial=0))


def _meta(
    rows: Sequence[int],
    first: int,
    counts: list[int] | None,
    events: Events,
    lsns: Sequence[int],
    places: Sequence[int],
    transactions: Sequence[OpenTransaction],
) -> LogMeta:
    """What events say besides the columns.

    Args:
        rows: Numbers of the relation's rows, in which ``lsns``, ``places`` and ``transactions`` count.
        first: The place of the first row in the batch.
        counts: How many events come before each row; None if as many as rows.
    """
    of = rows if events.of is None else [rows[at] for at in events.of]
    if len(of) != len(lsns) or events.of is not None:
        lsns, places = [lsns[at] for at in of], [places[at] for at in of]
        transactions = [transactions[at] for at in of]
    n = [first + at for at in of] if counts is None else []
    if counts is not None:
        # The second event of a row has the next place, in the batch and in the record.
        second = [False, *(one == other for one, other in pairwise(of))]
        n = [first + counts[at] + later for at, later in zip(of, second, strict=True)]
        places = [place + later for place, later in zip(places, second, strict=True)]
    if transactions[0] is transactions[-1]:
        one = transactions[0]
        before, after = f"[{one.since},", f",{one.begin.commit_lsn},"
        loc = [f"{before}{lsn}{after}{place}]" for lsn, place in zip(lsns, places, strict=True)]
        ts_ms, txid = [one.milliseconds] * len(of), [str(one.begin.xid)] * len(of)
    else:
        begins = [each.begin for each in transactions]
        stands = zip(transactions, lsns, begins, places, strict=True)
        loc = [f"[{each.since},{lsn},{begin.commit_lsn},{place}]" for each, lsn, begin, place in stands]
        ts_ms, txid = [each.milliseconds for each in transactions], [str(begin.xid) for begin in begins]
    return LogMeta(n, events.op, ts_ms, loc, txid, events.before, events.unchanged)
