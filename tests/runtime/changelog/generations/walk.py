"""A log that sessions write, beside the model of its generations, and the comparison of both after each commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.runtime.changelog.generations.model import PLAIN, SHAPES, Happening, Model, ModelGeneration, Shape
from tests.runtime.changelog.generations.sessions import Sessions, selected
from tidemark.protocol.changelog import ChangeLog, KnownGeneration, Summary, shown
from tidemark.protocol.changelog.models import Commit
from tidemark.protocol.changelog.summaries import advance
from tidemark.protocol.messages import JsonObject

TABLES = ("public/a", "public/b")
READ_AGAIN = "the table is read again"

Step = tuple[str, Any, Any]
"""A method of ``Walk``, a table or None, and a shape or None."""

_KINDS = ("begin", "row", "truncate", "complete")

STEPS: tuple[Step, ...] = (
    *((kind, TABLES[0], None) for kind in (*_KINDS, *_KINDS, "begin", "complete", "refill", "refill")),
    *(("alter", TABLES[0], shape) for shape in (*SHAPES, *SHAPES[:4], *SHAPES[:4])),
    *(("change", TABLES[0], shape) for shape in (SHAPES[0], *SHAPES[4:])),
    *((kind, TABLES[1], None) for kind in (*_KINDS, "refill", "complete")),
    *((kind, TABLES[1], SHAPES[4]) for kind in ("alter", "change", "change")),
    *((kind, None, None) for kind in (*["commit"] * 6, "hand_over", "lose", "crash", "reopen")),
)
"""Most are of one table, so that rules meet on it. A table is often begun: events of none end what a walk can show."""


class Walk(Sessions[Happening]):
    """One writer after another, and one session after another.

    Args:
        root: Where the log is made.
    """

    def __init__(self, root: Path) -> None:
        self._model = Model()
        self._shapes = dict.fromkeys(TABLES, PLAIN)
        self._stated: dict[tuple[str, int], int] = {}
        """From where on each generation is whole, as it was stated first."""
        super().__init__(root, [selected(table, PLAIN.announced, PLAIN.key) for table in TABLES])
        self._following = ChangeLog(root)
        self._folded = Summary(number=-1, epoch=0, time=self._following.header.created, next_offset=0)
        """The commits alone, without summaries that are stored."""

    def run(self, steps: list[Step]) -> None:
        """Takes the steps, then shows that a last session goes on as the model does."""
        try:
            for step in [*steps, ("reopen", None, None), *(("row", table, None) for table in TABLES)]:
                self._take(*step)
            self.commit()
        finally:
            self._writer.close()

    def _take(self, name: str, table: str | None, shape: Shape | None) -> None:
        if table is None:
            getattr(self, name)()
        elif name == "refill":
            self.refill(table)
        elif shape is not None:
            self.change(table, shape)
            if name == "alter":
                self.say(Happening("row", table, shape))
        else:
            self.say(Happening(name, table, self._shapes[table]))  # type: ignore[arg-type]  # STEPS has no other

    def _announced(self, table: str) -> JsonObject:
        return self._shapes[table].announced

    def change(self, table: str, shape: Shape) -> None:
        """The table changes in the source."""
        self._shapes[table] = shape
        self._bound[table].learn(shape.announced)

    def refill(self, table: str) -> None:
        """The table's users empty it, and fill it in another transaction, which comes to another commit."""
        self.say(Happening("truncate", table, self._shapes[table]))
        self.commit()
        self.say(Happening("row", table, self._shapes[table]))

    def say(self, happening: Happening) -> None:
        """The connector says something of a table, which a session passes on."""
        bound = self._bound[happening.table]
        self._said.append(happening)
        if happening.kind == "complete":
            bound.complete(self._batch)
        elif happening.kind != "begin":
            row = {} if happening.kind == "truncate" else happening.shape.row
            self._add(bound, {"_meta": {"op": "t" if happening.kind == "truncate" else "c"}, **row})
        elif bound.begin(self._batch):
            self._add(bound, {"_meta": {"op": "t"}})

    # What the log says, and what the model says.

    def _compare(self, commit: Commit, said: list[Happening]) -> None:
        model = self._model
        first = model.next_offset
        began, whole = model.commit(said)
        assert (commit.first_offset, commit.next_offset) == (first, model.next_offset)
        self._compare_segments(commit)
        stated = {(one.collection, one.number): one.whole for one in commit.generations}
        assert began | whole <= stated.keys(), (
            f"commit {commit.number} does not state {(began | whole) - stated.keys()}"
        )
        assert {name for name in stated if stated[name] is not None} >= whole

        log = ChangeLog(self._root)
        while self._folded.number < commit.number:
            self._folded = advance(self._folded, log.commit(self._folded.number + 1))
        summary = log.summary()
        assert summary == self._folded, "a stored summary is not what its commits come to"
        assert summary == self._writer.summary == self._following.summary()
        for table in TABLES:
            self._compare_table(summary, table)

    def _compare_segments(self, commit: Commit) -> None:
        told: dict[str, int] = {}
        for segment in commit.segments:
            of_it = [
                self._model.belongs[offset]
                for offset in range(segment.first_offset, segment.last_offset + 1)
                if self._model.belongs[offset][0] == segment.collection
            ]
            place = f"events of {segment.collection} from {segment.first_offset} on"
            numbers = {number for _, number in of_it}
            assert numbers == {segment.generation}, f"{place} belong to {numbers}, not {segment.generation}"
            assert segment.rows == len(of_it), f"{place}: {segment.rows} rows, not {len(of_it)}"
            told[segment.collection] = told.get(segment.collection, 0) + segment.rows
        assert sum(told.values()) == commit.next_offset - commit.first_offset

    def _compare_table(self, summary: Summary, table: str) -> None:
        found, expected = summary.generations.get(table, []), self._model.known(table)
        assert [one.number for one in found] == [number for number, _ in expected], f"{table}: other generations"
        for one, (number, of_model) in zip(found, expected, strict=True):
            self._compare_generation(summary, one, number, of_model)
        view, newest = shown.shown(summary, table), summary.newest(table)
        numbers = [one.number for one in view.generations] if view else []
        assert numbers == self._model.shown(table), f"{table}: others are shown"
        assert (newest.number if newest else None) == (len(self._model.generations.get(table, [])) or None)
        totals = summary.totals.get(table)
        events = sum(1 for of, _ in self._model.belongs if of == table)
        assert (totals.events if totals else 0) == events

    def _compare_generation(
        self, summary: Summary, found: KnownGeneration, number: int, expected: ModelGeneration
    ) -> None:
        place = f"generation {number} of {found.collection}"
        assert (found.begin, found.events, found.ended) == (expected.begin, expected.events, expected.ended), place
        assert (found.bytes > 0) == (found.events > 0)
        if found.whole is None:
            assert not expected.whole, f"{place} is whole"
        else:
            stated = self._stated.setdefault((found.collection, number), found.whole)
            assert found.whole == stated, f"{place} was whole from elsewhere"
            assert found.whole in expected.whole, f"{place} is not whole from there"
        assert (found.why == "") == (number == 1)
        assert (found.why in ("", READ_AGAIN)) == (not expected.must), f"{place}: {found.why}"
        shapes = [_shape(summary, fingerprint) for fingerprint in found.fingerprints]
        assert list(dict.fromkeys(shapes[::-1])) == sorted(
            expected.shapes, key=lambda shape: -expected.shapes[shape]
        ), f"{place} has events of other schemas"


def _shape(summary: Summary, fingerprint: str) -> Shape:
    schema = summary.schemas[fingerprint]
    return Shape(tuple((column.name, column.type) for column in schema.columns), tuple(schema.key))
