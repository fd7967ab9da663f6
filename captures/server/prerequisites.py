"""What does not hold before a capture begins, and whether it begins all the same."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from protocol.errors import SourceError, codes_of
from protocol.logs import log_failure

logger = logging.getLogger(__name__)


_ALIKE = 0.7
"""Of two names, as ``difflib`` has it, so that one is probably the other misspelt."""


def misspelt(names: Iterable[str], columns: Collection[str]) -> list[str]:
    """Names that no column has, and that some column which is not named resembles.

    What they should leave out, or hide, would be captured. A name that resembles none is of a column that was dropped.
    """
    wanted = set(names)
    others = {column.casefold() for column in columns if column not in wanted}
    return sorted(
        name
        for name in wanted.difference(columns)
        if difflib.get_close_matches(name.casefold(), others, n=1, cutoff=_ALIKE)
    )


def warn_of_dropped(table: str, option: str, names: Iterable[str], columns: Collection[str]) -> None:
    """Warns of names in a table's option that no column has. ``misspelt`` ones are an error, and not looked for."""
    if gone := sorted(set(names).difference(columns)):
        logger.warning("%s: %s names unknown columns: %s", table, option, ", ".join(gone))


@dataclass(frozen=True, slots=True)
class Unmet:
    """Every prerequisite that is not met.

    Attributes:
        source: Those of the server, the account and the configuration, without which no table can be captured.
        tables: Those of each table, by binding.
    """

    source: Sequence[SourceError]
    tables: Sequence[Sequence[SourceError]]

    @property
    def all(self) -> list[SourceError]:
        return [*self.source, *(failure for failures in self.tables for failure in failures)]

    def with_source(self, *more: SourceError) -> Unmet:
        """The same, and more that no table can be captured without."""
        return replace(self, source=[*self.source, *more])

    def enforce(self, several: str) -> None:
        """Warns of tables that cannot be captured, where others can: when the capture opens they are set aside.

        Args:
            several: The code for more failures than one.

        Raises:
            SourceError: Nothing could be captured.
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
