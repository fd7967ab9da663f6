"""What is known of a kind of database before its driver is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tidemark.captures.server.table_database import Database


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """What a connector's entry point passes to ``tidemark.captures.process.connector.main``.

    Attributes:
        endpoint_config: The model of its configuration.
        resource_config: The model of a table's configuration.
        database: Imports the database with its driver, and makes it. Raises ModuleNotFoundError without the driver.
    """

    endpoint_config: type[BaseModel]
    resource_config: type[BaseModel]
    database: Callable[[], Database]
