"""Each rule of the log's generations, switched off by an edit of its source."""

from __future__ import annotations
import __future__

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import pytest

from tests.runtime.changelog.generations.model import PLAIN, SHAPES
from tidemark.protocol.changelog import shown, summaries
from tidemark.protocol.changelog.columns import evolution
from tidemark.protocol.changelog.models import Summary
from tidemark.runtime.changelog.batch import Batch
from tidemark.runtime.changelog.generations import CollectionGenerations, emptied
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.sessions.bound_table import BoundTable


@dataclass(frozen=True)
class Mutant:
    """A rule switched off.

    Attributes:
        name: What the mutant does.
        of: The function that has the rule.
        old: Text that it has once.
        new: What is there instead.
        walk: The arguments of a walk that finds it, where random ones take long.
    """

    name: str
    of: Callable[..., Any]
    old: str
    new: str
    walk: tuple[Any, ...] = ()

    def switch(self, patch: pytest.MonkeyPatch) -> None:
        """Edits the function in place, so for all who have imported it."""
        source = dedent(inspect.getsource(self.of))
        assert source.count(self.old) == 1, f"{self.of.__qualname__} has not once: {self.old}"
        # No future imports of this module, and the one of those that are edited.
        flags = __future__.annotations.compiler_flag
        code = compile(source.replace(self.old, self.new), self.of.__qualname__, "exec", flags, dont_inherit=True)
        namespace: dict[str, Any] = {}
        exec(code, self.of.__globals__, namespace)  # noqa: S102
        edited: Any = namespace[self.of.__name__]
        edited = getattr(edited, "fget", edited)  # Of a property.
        patch.setattr(self.of, "__code__", edited.__code__)


_TABLE = "public/a"
_BEGUN = [("begin", _TABLE, None)] * 8

_OF_SESSIONS = (
    Mutant(
        "the first generation of a table that nobody begins is not stated",
        BoundTable.handle,
        "if self._generations.is_new:",
        "if False:",
    ),
    Mutant(
        "events after the begin of a generation go where those before went",
        BoundTable.begin,
        "self._handle = None",
        "pass",
    ),
    Mutant(
        "a table that had events is not emptied when it is read again",
        BoundTable.begin,
        "not self._generations.is_new",
        "False",
    ),
    Mutant(
        "events of another generation go to the segment of the last one",
        Batch._segment,
        "(segment.fingerprint, segment.generation) == kind",
        "segment.fingerprint == kind[0]",
    ),
)

_OF_EVENTS = (
    Mutant(
        "a new session forgets that events belong to none",
        CollectionGenerations.__init__,
        "if self._newest.ended is not None:",
        "if False:",
    ),
    Mutant(
        "a new session forgets the schemas of the generation",
        CollectionGenerations.__init__,
        "for fingerprint in self._newest.fingerprints",
        "for fingerprint in []",
    ),
    Mutant(
        "events belong to the generation again once they fit it",
        CollectionGenerations.number,
        "if not self.departed:",
        "if True:",
    ),
    Mutant(
        "events that do not fit the generation belong to it",
        CollectionGenerations.number,
        "if self.departed:",
        "if False:",
    ),
    Mutant(
        "events need to fit only the first schema",
        CollectionGenerations.number,
        "[*(known for known in self._schemas if known != schema), schema]",
        "self._schemas or [schema]",
        ([*_BEGUN, ("alter", _TABLE, SHAPES[1]), ("alter", _TABLE, SHAPES[2])],),
    ),
    Mutant(
        "events need to fit only the newest schema",
        CollectionGenerations.number,
        "*(known for known in self._schemas if known != schema), ",
        "",
        ([*_BEGUN, *(("alter", _TABLE, shape) for shape in (SHAPES[1], PLAIN, SHAPES[2]))],),
    ),
    Mutant(
        "events belong to none although a generation has begun",
        CollectionGenerations.begin,
        'self.departed = ""',
        "pass",
    ),
    Mutant(
        "the schemas before bind the generation that begins",
        CollectionGenerations.begin,
        "self._schemas, self._fills = [], {}",
        "pass",
    ),
    Mutant(
        "a schema that no event comes under binds the first generation",
        CollectionGenerations.begin,
        "self._schemas, self._fills = [], {}",
        "self._schemas = [schema]",
    ),
    Mutant(
        "it is forgotten that a generation begins because events did not fit",
        CollectionGenerations.begin,
        "self.departed or departure(",
        "departure(",
    ),
    Mutant(
        "it is not said that a generation begins because its first event does not fit",
        CollectionGenerations.begin,
        "departure(self._schemas, schema) or ",
        "",
        ([*_BEGUN, ("change", _TABLE, SHAPES[4]), _BEGUN[0]],),
    ),
    Mutant(
        "the first generation of a table that nobody begins is not whole",
        CollectionGenerations.begin_whole,
        "whole=offset",
        "whole=None",
    ),
    Mutant(
        "the end of a backfill is overlooked",
        CollectionGenerations.complete,
        "self._newest is None or",
        "True or",
    ),
    Mutant(
        "a generation is whole although events of its backfill belong to none",
        CollectionGenerations.complete,
        " or self.departed",
        "",
    ),
)

_OF_TRUNCATES = (
    Mutant(
        "the event that begins a generation makes it whole",
        emptied,
        "(generation.number > 1)",
        "0",
    ),
    Mutant(
        "a TRUNCATE makes a generation whole from its own offset on",
        emptied,
        "segment.truncated_at + 1",
        "segment.truncated_at",
    ),
    Mutant(
        "a TRUNCATE in the commit in which the generation begins is overlooked",
        LogWriter._generations_of,
        "stated.get((segment.collection, segment.generation)) or ",
        "",
    ),
    Mutant(
        "a TRUNCATE after the commit in which the generation begins is overlooked",
        LogWriter._generations_of,
        " or self.summary.newest(segment.collection)",
        "",
    ),
)

_OF_SUMMARIES = (
    Mutant(
        "a generation that is whole becomes so again",
        summaries._generations,
        "stated.whole if known[place].whole is None else known[place].whole",
        "stated.whole",
        ([*_BEGUN, ("refill", _TABLE, None), ("complete", _TABLE, None)],),
    ),
    Mutant(
        "the begin of a generation does not end the one before",
        summaries._generations,
        "_ended(one, stated.begin) for one in known[-1:]",
        "one for one in known[-1:]",
    ),
    Mutant(
        "events of all segments count for the newest generation",
        summaries._generations,
        "if one.number == segment.generation:",
        "if one is known[-1]:",
    ),
    Mutant(
        "events of none do not end a generation",
        summaries._generations,
        "if segment.generation is None:",
        "if False:",
    ),
    Mutant(
        "events of none end the newest generation, also those before it",
        summaries._generations,
        "max((place for place, one in enumerate(known) if one.begin <= segment.first_offset), default=0)",
        "len(known) - 1",
    ),
    Mutant(
        "a generation ends with its last event of another",
        summaries._ended,
        "min(offset, generation.ended)",
        "offset",
    ),
    Mutant(
        "all generations since the first whole one are remembered",
        summaries._needed,
        "whole[-1]",
        "whole[0]",
    ),
    Mutant(
        "only the newest generation is remembered",
        summaries._needed,
        "generations[whole[-1] :] if whole else generations",
        "generations[-1:]",
    ),
    Mutant(
        "only the newest schema of a generation is remembered",
        summaries._with_schema,
        "*(f for f in generation.fingerprints if f != fingerprint), ",
        "",
    ),
    Mutant(
        "a schema that is used again stays an old one",
        summaries._with_schema,
        "[*(f for f in generation.fingerprints if f != fingerprint), fingerprint]",
        "list(dict.fromkeys([*generation.fingerprints, fingerprint]))",
        ([*_BEGUN, ("alter", _TABLE, SHAPES[1]), ("alter", _TABLE, PLAIN)],),
    ),
    Mutant(
        "a generation that does not fit is shown before it is whole",
        shown.shown,
        "elif known[0].whole is None:",
        "else:",
    ),
    Mutant(
        "the first generation stays while none is whole",
        shown.shown,
        "elif known[0].whole is None:",
        "elif False:",
    ),
    Mutant(
        "a generation is laid over one that it does not fit",
        shown.shown,
        "fits(_schemas(summary, found), _since_it_began(summary, later))",
        "True",
    ),
    Mutant(
        "no generation is laid over another one",
        shown.shown,
        "fits(_schemas(summary, found), _since_it_began(summary, later))",
        "False",
    ),
    Mutant(
        "events belong to the generation that is shown",
        Summary.newest,
        "known[-1]",
        "known[0]",
    ),
)

_OF_TYPES = (
    Mutant(
        "events of another key belong to the generation",
        evolution.departure,
        "if why := _of_key(schema, after):",
        "if False:",
    ),
    Mutant(
        "columns of the key may change their type",
        evolution.departure,
        "same.name in after.key or ",
        "",
    ),
    Mutant(
        "no type holds all values of another one",
        evolution.widens,
        'old in ("bigint", "boolean", "date")',
        "False",
    ),
    Mutant(
        "any text can be read as a date",
        evolution.widens,
        'old == "date" and new == "timestamp_ntz"',
        'new == "date"',
    ),
)

MUTANTS = (*_OF_SESSIONS, *_OF_EVENTS, *_OF_TRUNCATES, *_OF_SUMMARIES, *_OF_TYPES)
