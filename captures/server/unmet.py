"""The prerequisites of a capture that are not met, and whether it can begin without them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.protocol.errors import SourceError, codes_of
from tidemark.protocol.logs import log_failure

logger = logging.getLogger(__name__)


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
