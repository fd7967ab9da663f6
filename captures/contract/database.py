"""What the engine asks of a kind of database: discovery, prerequisites, and a source to capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel

if TYPE_CHECKING:
    from captures.contract.source import Source
    from protocol.messages import Binding, DiscoveredBinding, JsonObject


class Database(Protocol):
    """One kind of database, as a connector hands it to ``captures.process.connector``.

    Attributes:
        documentation_url: Below ``captures.process.connector.DOCUMENTATION``.
        fallback_key: Pointers to what tells documents apart whose table has no key.
    """

    documentation_url: str
    resource_path_pointers: list[str]
    fallback_key: list[str]
    endpoint_config: type[BaseModel]
    resource_config: type[BaseModel]

    def with_names(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        """The configuration with what it does not say and what depends on the capture. Comes before any other call.

        Args:
            capture: Its name; empty where the runtime gives none.
            state: As far as it is known.
        """

    def discover(self, config: JsonObject) -> list[DiscoveredBinding]: ...

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        """The resource path of each binding. What keeps some of the tables from being captured is warned of.

        Raises:
            SourceError: None of them can be captured; with every unmet prerequisite.
        """

    def open(self, config: JsonObject, bindings: Sequence[Binding], *, only_reads: bool = False) -> Source:
        """The source of a capture; with ``only_reads`` of a plan, for which nothing at all is written at the server.

        What the capture needs there is made by the source: only then is it known where the capture stands, and so
        whether this is its server.
        """


DatabaseFactory = Callable[[], Database]
