"""What is wrong with the options of one table, as far as that is the same for all databases."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from tidemark.captures.rows.hashes import no_salt
from tidemark.captures.server.endpoint_config import Endpoint
from tidemark.captures.tables.bad_values import Policies, policy_failures
from tidemark.captures.tables.table_config import TableConfig
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

_ALIKE = 0.7
"""The ratio, as of ``difflib``, from which on one name is probably the other misspelt."""


def misspelt(names: Iterable[str], columns: Collection[str]) -> list[str]:
    """Names of no column that resemble an unnamed column.

    They are probably misspelt: the column that they should leave out or hide would be captured. A name that resembles
    no column was that of a dropped one.
    """
    wanted = set(names)
    others = {column.casefold() for column in columns if column not in wanted}
    return sorted(
        name
        for name in wanted.difference(columns)
        if difflib.get_close_matches(name.casefold(), others, n=1, cutoff=_ALIKE)
    )


def warn_of_dropped(table: str, option: str, names: Iterable[str], columns: Collection[str]) -> None:
    """Warns of names in a table's option that no column has. ``misspelt`` names are an error instead."""
    if gone := lacking(names, columns):
        logger.warning("%s: %s names unknown columns: %s", table, option, ", ".join(gone))


def lacking(names: Iterable[str], columns: Collection[str]) -> list[str]:
    """Names that no column has."""
    return sorted(set(names).difference(columns))


def option_failures(
    endpoint: Endpoint,
    resource: TableConfig,
    columns: Collection[str],
    key: Sequence[str],
    temporal: Collection[str],
    *,
    code: str,
    wrong_config: str,
    unknown: Callable[[Iterable[str], Collection[str]], list[str]] = lacking,
) -> Iterator[SourceError]:
    """Why the options do not fit the table.

    Args:
        columns: Names of all that the table has.
        key: Names of the key's.
        temporal: Names of those that can be clamped.
        code: Of the errors.
        wrong_config: Of the error for hashes without a salt.
        unknown: Those of an option's names that no column has, and that are refused. Of a key all are.
    """

    def wrong(what: str, names: Sequence[str], why: str = "", remedy: str | None = None) -> Iterator[SourceError]:
        if names:
            yield SourceError(code, f"{resource.name}: {what} {', '.join(names)}{why}", remedy=remedy)

    policies = Policies.of(endpoint.on_bad_value, resource.on_bad_value)
    yield from wrong("exclude names unknown columns:", unknown(resource.exclude, columns))
    yield from wrong("hash names unknown columns:", unknown(resource.hash, columns))
    if resource.hash and not endpoint.hash_salt.get_secret_value():
        yield no_salt(wrong_config, resource.name)
    yield from wrong(
        "the key column",
        sorted(set(key) & set(resource.hash)),
        " cannot be hashed",
        "The key identifies rows. Hash other columns, or choose another `key` of unique columns.",
    )
    refused = unknown(policies.columns, columns)
    yield from policy_failures(code, resource.name, policies, columns, refused, key, temporal)
    yield from wrong("key names unknown columns:", lacking(key, columns))
    yield from wrong("the key column", sorted(set(key) & set(resource.exclude)), " cannot be excluded")
