"""Bad values: those that the announced schema, or the type of the change log's column, cannot hold.

What is done with one is the policy ``on_bad_value`` of its table or column. The good path of the decoders knows nothing
of it: they raise, and the rows in question are decoded again by what is here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

import orjson

from tidemark.captures.contract.errors import UnfitValues
from tidemark.captures.tables.suggested_entries import in_yaml
from tidemark.protocol.envelope import MAX_LINE_BYTES
from tidemark.protocol.environment import RUNTIME, is_on
from tidemark.protocol.errors import SourceError
from tidemark.protocol.text.nesting import VALUE_NESTING, nested_deeper
from tidemark.protocol.text.null_name import NULL_IS_A_NAME

Policy = Literal["stop", "text", "clamp", "null", "quarantine"]
"""``stop``: the table is set aside. ``text``: the column is text everywhere. ``clamp``: the nearest date or timestamp
that fits. ``null``: NULL. ``quarantine``: the event is marked, and the runtime keeps it apart."""


EndpointPolicy = Annotated[Policy, NULL_IS_A_NAME]
"""The policy of all tables."""

ResourcePolicy = Annotated[Policy | dict[str, Policy] | None, NULL_IS_A_NAME]
"""The policy of one table, or of some of its columns; None, which only an absent entry gives, for the endpoint's."""

ROW_LIMIT = MAX_LINE_BYTES - 64 * 1024
"""Bytes of a row's documents; what stands around them in a line is less than the rest."""

RAW_LIMIT = 1024 * 1024
"""Bytes of a value that is kept as it is in the mark of an event; of a longer one the size is."""


class Reason(NamedTuple):
    """Why values are bad.

    Attributes:
        text: For people; no value is in it.
        policy: The policy that lets such values through and loses as little as can be.
    """

    text: str
    policy: Policy = "text"


TOO_LARGE = Reason(f"a row takes more than {MAX_LINE_BYTES >> 20} MB as JSON, most of it in this column", "quarantine")

UNDECODABLE = Reason("a text is not in the character set of the column", "quarantine")


def unfit_for(type_name: str) -> Reason:
    """The reason of a value that is nothing that its column's type has."""
    return Reason(f"a value is not written as type {type_name} should be", "quarantine")


class BadValue(ValueError):
    """A value that is right at the source and has no place in a document; the message says why, without the value.

    Args:
        reason: A text alone is a ``Reason`` with its default policy.

    Attributes:
        nearest: Of a date or timestamp, the text of the nearest one that fits.
        pattern: A regular expression of PostgreSQL's that the texts of such values match; empty where there is none.
    """

    def __init__(self, reason: Reason | str, *, nearest: str | None = None, pattern: str = "") -> None:
        self.reason = reason if isinstance(reason, Reason) else Reason(reason)
        super().__init__(self.reason.text)
        self.nearest = nearest
        self.pattern = pattern


SHORT_JSON = 2 * VALUE_NESTING
"""A shorter text cannot be nested too deep."""


def check_nesting(text: str) -> None:
    """Raises BadValue if a JSON text is nested deeper than parsers accept."""
    if nested_deeper(text, VALUE_NESTING):
        raise BadValue(f"a value is nested deeper than {VALUE_NESTING} levels")


class BadValues(UnfitValues):
    """Values of a table that its policy does not let through: the table is set aside.

    Args:
        table: ``schema.table``.
        columns: Why, by name of the column.
        key: Of an example, as the log and chunks have it; None where none is known.
        find: Statements that find such rows.
    """

    def __init__(
        self, table: str, columns: Mapping[str, Reason], key: bytes | None = None, find: Sequence[str] = ()
    ) -> None:
        self.table = table
        self.columns = dict(sorted(columns.items()))
        self.key = key
        self.find = tuple(dict.fromkeys(find))
        listed = "; ".join(f"column {name}: {reason.text}" for name, reason in self.columns.items())
        example = f" (for example, the row with key {_shown(key)})" if key else ""
        super().__init__(CODE, f"{table}: {listed}{example}", remedy=self._remedy())

    def _remedy(self) -> str:
        entry = ", ".join(f"{in_yaml(name)}: {reason.policy}" for name, reason in self.columns.items())
        line = f"{{table: {in_yaml(self.table)}, on_bad_value: {{{entry}}}}}"
        found = f" To find such rows: {' '.join(self.find)}" if self.find else ""
        return (
            f"Add to the capture file's tables:  - {line}  (or choose clamp, null or quarantine, or leave a column "
            "out by `exclude`). The table is then emptied and read again." + found
        )

    def joined(self, other: BadValues) -> BadValues:
        """Both, of one table."""
        columns = {**other.columns, **self.columns}
        key = self.key if self.key is not None else other.key
        return BadValues(self.table, columns, key, [*self.find, *other.find])

    def __reduce__(self) -> tuple[object, ...]:
        return (BadValues, (self.table, self.columns, self.key, self.find))


CODE = "TM-CAP-020"
"""The code of ``BadValues``."""


def _shown(key: bytes) -> str:
    return ", ".join(ascii(part.decode("utf-8", "replace"))[1:-1] for part in key.split(b"\0"))


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a table's columns.

    Attributes:
        default: Of columns that are not named.
        columns: Of those that are.
    """

    default: Policy = "stop"
    columns: Mapping[str, Policy] = field(default_factory=dict)

    @classmethod
    def of(cls, endpoint: Policy, resource: Policy | dict[str, Policy] | None) -> Policies:
        """From the configurations of endpoint and table."""
        if isinstance(resource, dict):
            return cls(endpoint, resource)
        return cls(resource or endpoint)

    def column(self, name: str, *, in_key: bool) -> Policy:
        """The policy of one column. A key says which row it is: it is changed only where that was asked for by name."""
        given = self.columns.get(name)
        if given is not None:
            return given
        return "stop" if in_key and self.default in _CHANGING else self.default

    def text(self, exclude: Iterable[str], hashed: Iterable[str]) -> str:
        """Another one with other policies, or with other columns whose values documents do not have."""
        named = [*self.columns.items(), *((name, "no value") for name in (*exclude, *hashed))]
        return ", ".join([self.default, *(f"{name}: {policy}" for name, policy in sorted(named))])

    @property
    def used(self) -> set[Policy]:
        """All that are given."""
        return {self.default, *self.columns.values()}


STOP = Policies()
_CHANGING = ("clamp", "null")

LEAVES_OUT = ("null", "quarantine")
"""Policies that have NULL in the place of a value, whatever the column says."""

BAD_SCHEMA = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "description": "The event must be kept apart because of these values, by column, in the source's form.",
}
"""The schema of the member ``bad`` of ``_meta``."""


def policy_failures(
    code: str,
    table: str,
    policies: Policies,
    columns: Collection[str],
    unknown: Sequence[str],
    key: Iterable[str],
    temporal: Collection[str],
) -> Iterator[SourceError]:
    """What is wrong with the policies of a table.

    Args:
        code: Of the errors.
        table: ``schema.table``.
        columns: Names of all that the table has.
        unknown: Names that no column has, and that are refused.
        key: Names of the key's.
        temporal: Names of those that can be clamped.
    """
    if unknown:
        yield SourceError(code, f"{table}: on_bad_value names unknown columns: {', '.join(unknown)}")
    in_key = set(key)
    if changed := sorted(name for name, policy in policies.columns.items() if policy in _CHANGING and name in in_key):
        yield SourceError(
            code,
            f"{table}: on_bad_value of the key column {', '.join(changed)} cannot be clamp or null",
            remedy=(
                "The key identifies rows: two rows that differ only in a bad value would become one. Use text "
                "or quarantine."
            ),
        )
    unclamped = (name for name, policy in policies.columns.items() if policy == "clamp")
    if unfit := sorted(name for name in unclamped if name in columns and name not in temporal and name not in in_key):
        yield SourceError(
            code,
            f"{table}: on_bad_value: clamp is only for dates and timestamps, not for {', '.join(unfit)}",
            remedy="Use text, null or quarantine.",
        )


def quarantine_failures(
    code: str, endpoint: Policy, resources: Iterable[tuple[str, ResourcePolicy]]
) -> list[SourceError]:
    """Why marked events must not leave: a runtime that is not ours would take them for others.

    Args:
        code: Of the error.
        resources: Of each table, ``schema.table`` and its policy.
    """
    asking = sorted(name for name, policy in resources if "quarantine" in Policies.of(endpoint, policy).used)
    if not asking or is_on(RUNTIME):
        return []
    return [
        SourceError(
            code,
            "on_bad_value: quarantine needs a runtime that keeps marked events apart, such as `tidemark capture`; it "
            f"is set for {', '.join(asking)}",
            remedy="Use stop, text, clamp or null.",
        )
    ]


def largest(sizes: Sequence[int], room: int) -> Iterator[int]:
    """Which values a row leaves out that no line can hold: the largest, until ``room`` bytes hold the others.

    Args:
        sizes: Of the values as JSON, in bytes.

    Returns:
        Their places. Of equally large values the first is left out first.
    """
    left = sum(sizes)
    for place in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        if left <= room:
            return
        yield place
        left -= sizes[place]


BadCounts = Counter[str]
"""How many bad values there were, by the policy that was followed."""


@dataclass(slots=True)
class Repairs:
    """What becomes of the bad values of some rows.

    Attributes:
        table: ``schema.table``.
        counts: Of the values that were let through.
        marks: Of the present row: its bad values by column, for ``_meta.bad``.
        stopped: Why the table is set aside, by column.
        find: Statements that find such rows.
    """

    table: str
    counts: BadCounts = field(default_factory=Counter)
    marks: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, Reason] = field(default_factory=dict)
    find: list[str] = field(default_factory=list)

    def settle(self, name: str, policy: Policy, error: BadValue, raw: str, *, marked: bool = True) -> str | None:
        """What stands for a value: the text of another one, or None for NULL.

        Args:
            name: Of the column, as a byte text.
            policy: Of the column.
            error: Why it is bad.
            raw: The value, as a byte text.
            marked: The event is kept apart for it; False in the old image of a row, on which nothing depends.
        """
        if policy == "quarantine":
            if marked:
                self.marks[name] = raw if len(raw) <= RAW_LIMIT else f"{len(raw)} bytes"
            return None
        if policy == "null":
            self.counts["null"] += 1
            return None
        if policy == "clamp" and error.nearest is not None:
            self.counts["clamp"] += 1
            return error.nearest
        self.stopped.setdefault(name, error.reason)
        return None

    def check(self, key: bytes | None = None) -> None:
        """Raises BadValues where a policy does not let them through."""
        if self.stopped:
            columns = {_name(name): reason for name, reason in self.stopped.items()}
            error = BadValues(self.table, columns, key, self.find)
            self.forget()
            raise error from None

    def forget(self) -> None:
        """What is known of rows whose events do not leave counts no more."""
        self.stopped.clear()
        self.marks.clear()
        self.find.clear()

    def mark(self) -> str:
        """The member ``bad`` of the present row's ``_meta``, a byte text with a comma in front, or nothing."""
        if not self.marks:
            return ""
        self.counts["quarantine"] += 1
        texts = {_name(name): _name(raw) for name, raw in self.marks.items()}
        self.marks.clear()
        return f',"bad":{orjson.dumps(texts).decode("latin-1")}'


def _name(byte_text: str) -> str:
    return byte_text.encode("latin-1").decode("utf-8", "backslashreplace")
