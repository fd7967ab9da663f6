"""One kind of database as a connector runs it: discovery, prerequisites, and a source to capture."""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidemark.captures.server.endpoint_config import Endpoint
from tidemark.captures.server.unmet import Unmet
from tidemark.captures.tables.bad_values import quarantine_failures
from tidemark.captures.tables.table_config import TableConfig
from tidemark.protocol.environment import CHECK, RETAINED
from tidemark.protocol.errors import SourceError
from tidemark.protocol.logs import STATUS, log_left_out
from tidemark.protocol.messages import Binding, DiscoveredBinding, JsonObject

if TYPE_CHECKING:
    from tidemark.captures.contract.source import RetainedLog, Source
    from tidemark.protocol.answers.removal import MadeObject

logger = logging.getLogger(__name__)

CLOCK_SECONDS = 2.0
"""Clocks that are kept by a time server differ by less."""

E = TypeVar("E", bound=Endpoint)
R = TypeVar("R", bound=TableConfig)
S = TypeVar("S")


class TableDatabase(ABC, Generic[E, R, S]):
    """A kind of database whose tables have a schema and a name.

    Attributes:
        fallback_key: Pointers to the members that identify documents of a table without a key.
        wrong_config: The code of errors in the configuration.
        several_unmet: The code of an error that lists several unmet prerequisites.
        why_disabled: Why tables without a key are discovered as disabled.
        other_clock: The code of a warning that the server's clock is another.
    """

    fallback_key: list[str]
    wrong_config: str
    several_unmet: str
    why_disabled: str
    other_clock: str

    def __init__(self) -> None:
        self._state: JsonObject = {}

    def with_names(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        """The configuration completed with the defaults that depend on the capture. Called before any other method.

        Args:
            capture: Its name; empty if the runtime gives none.
            state: As far as it is known.
        """
        self._state = state
        return self.named(config, capture, state)

    def discover(self, config: JsonObject) -> list[DiscoveredBinding]:
        endpoint = self.endpoint(config)
        with self.session(endpoint, "discovering tables") as session:
            found = list(self.found(session, endpoint))
        for binding in found:
            if binding.disable:
                log_left_out(logger, binding.recommended_name, self.why_disabled)
        return found

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        """The resource path of each binding. Warns of tables that cannot be captured.

        Raises:
            SourceError: No table can be captured; with all unmet prerequisites.
        """
        endpoint = self.endpoint(config)
        resources = [self.resource(binding.resource_config) for binding in bindings]
        with self.session(endpoint, "checking prerequisites") as session:
            found = self.unmet(session, endpoint, resources)
            if check := os.environ.get(CHECK):
                self._tell_clock(session)
                said = {str(failure) for failure in found.all}
                more = self.standing(session, endpoint, running=check == "running")
                found = Unmet([*found.source, *(each for each in more if str(each) not in said)], found.tables)
        found.enforce(self.several_unmet)
        return [resource.path for resource in resources]

    def _tell_clock(self, session: S) -> None:
        """Warns if the server's clock and ours differ: the lag is counted from its times of commits."""
        asked = time.time()
        there = self.now(session)
        answered = time.time()
        ahead = there - answered if there > answered else min(0.0, there - asked)
        if abs(ahead) < CLOCK_SECONDS:
            return
        which = "ahead of" if ahead > 0 else "behind"
        wrong = SourceError(self.other_clock, f"the server's clock is {abs(ahead):.0f} s {which} this machine's")
        logger.warning("%s", wrong.message, extra={"code": wrong.code, "remedy": wrong.remedy})

    def tell_retained(self, config: JsonObject) -> None:
        """Logs what the server retains for a capture that does not answer, and why it could not resume."""
        from tidemark.protocol.log_lines import Progress

        endpoint = self.endpoint(config)
        with self.session(endpoint, "asking what is retained for the capture") as session:
            retained = self.retained(session, endpoint)
            failures = list(self.standing(session, endpoint, running=os.environ.get(RETAINED) == "running"))
        size, limit, by = retained.size, retained.limit, retained.by or None
        told = Progress(retained_bytes=size, retained_limit=limit, retained_by=by).model_dump(exclude_unset=True)
        logger.info("the capture does not run", extra={"eventType": STATUS, **told})
        for failure in failures:
            logger.error("%s", failure.message, extra={"code": failure.code, "remedy": failure.remedy})

    def tell_made(self, config: JsonObject) -> None:
        """Logs what the capture made at the server. Raises SourceError."""
        endpoint = self.endpoint(config)
        with self.session(endpoint, "looking for what the capture made") as session:
            _tell(self.made(session, endpoint))

    def remove_made(self, config: JsonObject) -> None:
        """Removes what the capture made at the server, as much of it as the server allows, and logs that.

        Raises:
            SourceError: The last of the server's refusals. The others are logged.
        """
        endpoint = self.endpoint(config)
        refusals: list[SourceError] = []
        with self.session(endpoint, "removing what the capture made") as session:
            found = self.made(session, endpoint)
            for each in found:
                if each.kept:
                    continue
                try:
                    self.run(session, each.statement, f"removing {each.what}")
                    each.removed = True
                except SourceError as error:
                    refusals.append(error)
        _tell(found)
        for refusal in refusals[:-1]:
            logger.error("%s", refusal.message, extra={"code": refusal.code, "remedy": refusal.remedy})
        if refusals:
            raise refusals[-1]

    def open(self, config: JsonObject, bindings: Sequence[Binding], *, only_reads: bool = False) -> Source:
        """The source of a capture; with ``only_reads`` of a plan, for which nothing at all is written at the server.

        What the capture needs there is made by the source: only then is it known where the capture stands, and so
        whether this is its server.
        """
        resources = [self.resource(binding.resource_config) for binding in bindings]
        endpoint = self.endpoint(config)
        policies = [(resource.name, resource.on_bad_value) for resource in resources]
        for failure in quarantine_failures(self.wrong_config, endpoint.on_bad_value, policies):
            raise failure
        return self.opened(endpoint, bindings, resources, only_reads=only_reads)

    # The part of each kind of database.

    @abstractmethod
    def named(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        """The endpoint's configuration with names. See ``with_names``."""

    @abstractmethod
    def endpoint(self, config: JsonObject) -> E:
        """Raises SourceError ``wrong_config``."""

    @abstractmethod
    def resource(self, config: JsonObject) -> R:
        """Raises SourceError ``wrong_config``."""

    @abstractmethod
    def session(self, endpoint: E, what: str) -> AbstractContextManager[S]:
        """A session whose errors name ``what`` was being done."""

    @abstractmethod
    def found(self, session: S, endpoint: E) -> Iterable[DiscoveredBinding]:
        """All tables that could be captured."""

    @abstractmethod
    def unmet(self, session: S, endpoint: E, resources: Sequence[R]) -> Unmet:
        """Every prerequisite that is not met."""

    @abstractmethod
    def standing(self, session: S, endpoint: E, *, running: bool) -> Iterable[SourceError]:
        """The reasons why the capture could not resume; ``running`` is whether it runs now."""

    @abstractmethod
    def retained(self, session: S, endpoint: E) -> RetainedLog:
        """The log that the server keeps for a capture that does not run."""

    @abstractmethod
    def made(self, session: S, endpoint: E) -> list[MadeObject]:
        """What the capture made at the server, as far as it is there, in the order in which it is removed.

        Raises:
            SourceError: A process uses some of it.
        """

    @abstractmethod
    def now(self, session: S) -> float:
        """The server's time, in seconds since 1970."""

    @abstractmethod
    def run(self, session: S, statement: str, what: str) -> None:
        """Runs a statement. Raises SourceError, which names ``what`` was being done."""

    @abstractmethod
    def source(self) -> Callable[..., Source]:
        """Imports what makes a source, which only ``opened`` needs, and returns it."""

    @abstractmethod
    def opened(self, endpoint: E, bindings: Sequence[Binding], resources: Sequence[R], *, only_reads: bool) -> Source:
        """Opens the source of tables. See ``open``."""


def _tell(found: list[MadeObject]) -> None:
    from tidemark.protocol.answers.removal import REMOVAL, Removal

    removal = Removal(objects=found).model_dump()
    logger.info("%d objects of the capture", len(found), extra={"eventType": REMOVAL, **removal})


Database = TableDatabase[Any, Any, Any]
DatabaseFactory = Callable[[], Database]
