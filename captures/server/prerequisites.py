"""The prerequisites of a capture that are not met, and whether it can begin without them."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tidemark.protocol.errors import SourceError, codes_of
from tidemark.protocol.logs import log_failure

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
    if gone := sorted(set(names).difference(columns)):
        logger.warning("%s: %s names unknown columns: %s", table, option, ", ".join(gone))


@dataclass(frozen=True, slots=True)
class Unmet:
    """Every prerequisite that is not met.

    Attributes:
        source: Of the server, the account and the configuration: without them no table can be captured.
        tables: Of each table, by binding.
    """

    source: Sequence[SourceError]
    tables: Sequence[Sequence[SourceError]]

    @property
    def all(self) -> list[SourceError]:
        return [*self.source, *(failure for failures in self.tables for failure in failures)]

    def enforce(self, several: str) -> None:
        """Warns of tables that cannot be captured if others can: they are set aside when the capture opens.

        Args:
            several: The code for more failures than one.

        Raises:
            SourceError: No table can be captured.
        """
        if not self.source and not (self.tables and all(self.tables)):
            for failure in self.all:
                extra = {"code": failure.code, "remedy": failure.remedy}
                logger.warning("%s; the capture starts without this table", failure.message, extra=extra)
            return
        failures = self.all
        if len(failures) == 1:
            raise failures[0]
        for failure in failures:
            log_failure(logger, failure)
        raise SourceError(several, f"{len(failures)} prerequisites are not met: {codes_of(failures)}")
