"""What the engine asks of a kind of database: discovery, prerequisites, and a source to capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel

if TYPE_CHECKING:
    from captures.contract.source import Source
    from protocol.messages import Binding, DiscoveredBinding, JsonObject


class Database(Protocol):
    """One kind of database, as a connector passes it to ``captures.process.connector``.

    Attributes:
        documentation_url: Absolute; set by ``captures.process.connector.main``.
        fallback_key: Pointers to the members that identify documents of a table without a key.
    """

    documentation_url: str
    resource_path_pointers: list[str]
    fallback_key: list[str]
    endpoint_config: type[BaseModel]
    resource_config: type[BaseModel]

    def with_names(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        """The configuration completed with the defaults that depend on the capture. Called before any other method.

        Args:
            capture: Its name; empty if the runtime gives none.
            state: As far as it is known.
        """

    def discover(self, config: JsonObject) -> list[DiscoveredBinding]: ...

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        """The resource path of each binding. Warns of tables that cannot be captured.

        Raises:
            SourceError: No table can be captured; with all unmet prerequisites.
        """

    def open(self, config: JsonObject, bindings: Sequence[Binding], *, only_reads: bool = False) -> Source:
        """The source of a capture; with ``only_reads`` of a plan, for which nothing at all is written at the server.

        What the capture needs there is made by the source: only then is it known where the capture stands, and so
        whether this is its server.
        """


DatabaseFactory = Callable[[], Database]
