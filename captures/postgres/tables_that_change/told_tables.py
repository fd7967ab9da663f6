"""Captured tables of which the log itself tells that an ALTER TABLE rewrote them.

It does so where the event trigger of ``tidemark.captures.postgres.server.rewrite_trigger`` exists. Anybody may write
its messages, and it may be disabled. So a message says when to compare a table, and what happened. It never has a row
left unread that the catalogs have read, and without one everything is as if there were no trigger.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

from tidemark.captures.postgres.catalog.columns import Table, recorded
from tidemark.captures.postgres.server.rewrite_trigger import Reason
from tidemark.captures.postgres.server.session import asking
from tidemark.captures.postgres.tables.table_contract import AlteredTable
from tidemark.captures.postgres.tables_that_change.captured_tables import LOOKING_PART, CapturedTables
from tidemark.captures.postgres.tables_that_change.comparison import oldest_running, present, why_unfit
from tidemark.captures.postgres.tables_that_change.sole_change import is_sole_change

logger = logging.getLogger(__name__)


class ToldTables(CapturedTables):
    """As ``CapturedTables``. A table that was rewritten is compared where the log says so."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._told: dict[int, tuple[str, Reason]] = {}  # By binding, the last transaction that rewrote its table.
        self._compare_at = 0.0

    def rewritten(self, reasons: Mapping[int, Reason], transaction: int) -> bool:
        """See ``tidemark.captures.postgres.tables.table_contract.Tables``."""
        found = False
        for binding in self.captured:
            stores = reasons.keys() & {store.oid for store in recorded(binding.table).stores}
            if stores:
                reason = reduce(or_, (reasons[oid] for oid in stores))
                self._names_shown.rewritten(binding, reason)
                self._told[binding.index] = str(transaction), reason
                found = True
        return found and time.monotonic() >= self._compare_at

    def altered(self, position: int) -> list[AlteredTable] | None:
        """See ``tidemark.captures.postgres.tables.table_contract.Tables``."""
        taken = self._take_told() if self._told and time.monotonic() >= self._compare_at else []
        altered = super().altered(position)
        return [*taken, *(altered or ())] if taken else altered

    def _take_told(self) -> list[AlteredTable]:
        """Continues with the tables of which the log shows all that happened to them. The catalogs tell of others."""
        began = time.monotonic()
        told, self._told = self._told, {}
        taken = []
        for index, (transaction, reason) in told.items():
            if index not in self._left_out and (altered := self._take_where_told(index, transaction, reason)):
                taken.append(altered)
        # Whoever writes messages does not keep the log from being read.
        now = time.monotonic()
        self._compare_at = now + LOOKING_PART * (now - began)
        return taken

    def _take_where_told(self, index: int, transaction: str, reason: Reason) -> AlteredTable | None:
        binding = self.bindings[index]
        with asking(f"reading the columns of {binding.name}"):
            seen = self._digests([binding.table.path]).get(binding.table.path)
            since = oldest_running(self.session)
            fresh = present(self.session, self._config, binding)
            fits = why_unfit(self.session, self._config, binding, fresh) is None
            sole = fresh if fits and fresh is not None and self._is_sole(index, fresh, since, transaction) else None
        altered = None
        if sole is not None and seen is not None:
            logger.info("%s was rewritten by ALTER TABLE in transaction %s: %s", binding.name, transaction, reason.text)
            altered = self._take(binding, sole, since)
        if altered is None:
            self.found.add(index)  # More happened to it, or nothing: it is compared where the log ends now.
        else:
            self._seen[index] = seen
        return altered

    def _is_sole(self, index: int, fresh: Table, since: str, transaction: str) -> bool:
        return is_sole_change(self.session, self.bindings[index], fresh, since, transaction)
