"""The model of a capture file. The ``spark`` entry has a module of its own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    StrictInt,
    model_validator,
)

from tidemark.protocol.capture_file.metrics_entry import MetricsEntry
from tidemark.protocol.capture_file.notify_entry import NotifyEntry
from tidemark.protocol.capture_file.spark_entry import SparkEntry
from tidemark.protocol.capture_file.store_entry import StoreEntry
from tidemark.protocol.capture_file.values import STRICT, Seconds, StoredPath
from tidemark.protocol.capture_file.verify_entry import VerifyEntry
from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import RETRIED, is_url, opened
from tidemark.protocol.store.settings import StoreSettings
from tidemark.protocol.text.null_name import NULL_IS_A_NAME
from tidemark.protocol.text.sizes import Bytes


class RetainEntry(BaseModel):
    """``retain``: without it all of the log is kept.

    Events stay that are needed to build a captured table again, and those that a consumer has not read. Of the others
    those go that are older than ``age``, or that make the log larger than ``size``; without both, all of them.

    Attributes:
        age: Seconds.
        size: Bytes of segments.
        renew: Seconds after which a table is read again, so that events from before are not needed any more.
    """

    model_config = STRICT

    age: Annotated[Seconds, Field(gt=0)] | None = None
    size: Annotated[Bytes, Field(gt=0)] | None = None
    renew: Annotated[Seconds, Field(ge=3600)] | None = None


SILENCE_SECONDS = 60.0
"""Six times the heartbeat interval of our connectors."""

ANSWER_SECONDS = 600.0
"""Discovering a hundred thousand tables of a slow catalog takes minutes, not more."""


def _table(value: object) -> object:
    return {"table": value} if isinstance(value, str) else value


class LimitsEntry(BaseModel):
    """``connector.limits``: of a container.

    Attributes:
        memory: In bytes.
        cpus: Processors; by default all that the engine has.
        processes: Processes and threads at the same time.
    """

    model_config = STRICT

    memory: Annotated[Bytes, Field(ge=64 * 10**6)] = 4 * 10**9
    cpus: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    processes: Annotated[int, Field(gt=0)] = 1024


class ConnectorEntry(BaseModel):
    """``connector``: an image or a command, and its configuration with secrets still unresolved.

    Attributes:
        network: The engine's network that the container joins; ``host`` reaches a database on this machine.
        interval: Seconds between two starts of a connector that ends once it is caught up.
        environment: Variables for it, besides those that every program needs; secrets still unresolved.
        limits: Of a container.
        silence: Seconds without output after which the connector is ended and opened again; 0 for never.
        answer: The most seconds until it answers a request.
    """

    model_config = STRICT

    image: Annotated[str, Field(min_length=1)] | None = None
    command: Annotated[list[str], Field(min_length=1)] | None = None
    network: str = ""
    interval: Annotated[Seconds, Field(ge=0, le=86_400)] = 5.0
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], JsonValue] = {}
    limits: LimitsEntry | None = None
    silence: Annotated[Seconds, Field(ge=0)] = SILENCE_SECONDS
    answer: Annotated[Seconds, Field(gt=0, le=86_400)] = ANSWER_SECONDS
    config: dict[str, JsonValue] = {}

    @model_validator(mode="after")
    def _one_way_to_run(self) -> ConnectorEntry:
        if (self.image is None) == (self.command is None):
            raise ValueError("give exactly one of image and command")
        if self.network and self.image is None:
            raise ValueError("network is for an image; a command uses this machine's network")
        if self.limits is not None and self.image is None:
            raise ValueError("limits are for an image; a command has this machine's limits")
        return self


class TableEntry(BaseModel):
    """One entry of ``tables``: a table or a pattern with ``*``, and options for the connector.

    Entries without a field here are passed to the connector. ``tidemark.runtime.preparation.table_options`` compares
    them with the connector's resource schema.

    Attributes:
        table: ``schema.table``, or a pattern such as ``sales.*``.
        exclude: Columns left out.
        hash: Columns that the connector replaces by a salted hash.
        key: Columns that identify a row, instead of the primary key.
        on_bad_value: The policy for bad values: one for all columns, or one for each column listed.
        text: Columns that become text: the same as ``on_bad_value: {column: text}``.
        backfill: Increased by one, it causes a new backfill of the table.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    table: Annotated[str, Field(min_length=1)]
    exclude: list[str] = []
    hash: list[str] = []
    key: list[str] = []
    on_bad_value: Annotated[str | dict[str, str] | None, NULL_IS_A_NAME] = None
    text: list[str] = []
    backfill: Annotated[int, Field(ge=0)] = 0

    @property
    def is_pattern(self) -> bool:
        return "*" in self.table

    @property
    def others(self) -> dict[str, JsonValue]:
        """The options that only the connector knows, without those that have no value."""
        return {name: value for name, value in self.__pydantic_extra__.items() if value is not None}

    @property
    def given(self) -> dict[str, Any]:
        """The options for the connector as they stand in the file."""
        known = self.model_dump(include={"exclude", "hash", "key", "on_bad_value"}, exclude_defaults=True)
        return {**known, **self.others}

    @property
    def options(self) -> dict[str, Any]:
        """The options for the connector, as its resource configuration names them."""
        policies = self._policies
        return self.given if policies is None else {**self.given, "on_bad_value": policies}

    @property
    def text_columns(self) -> list[str]:
        """Columns that are text by name."""
        policies = self._policies
        return [name for name, policy in policies.items() if policy == "text"] if isinstance(policies, dict) else []

    @property
    def _policies(self) -> str | dict[str, str] | None:
        """``on_bad_value``, and ``text`` with it."""
        if not self.text:
            return self.on_bad_value
        named = dict(self.on_bad_value) if isinstance(self.on_bad_value, dict) else {}
        for column in self.text:
            named[column] = "text"
        return named

    @model_validator(mode="after")
    def _one_policy(self) -> TableEntry:
        if self.text and isinstance(self.on_bad_value, str):
            raise ValueError(
                "text is a policy of on_bad_value: if on_bad_value is set for the whole table, list the columns there"
            )
        return self


class CommitEntry(BaseModel):
    """``commit``: when a commit is due. ``interval`` in seconds, ``bytes`` of documents."""

    model_config = STRICT

    interval: Annotated[Seconds, Field(gt=0, le=86_400)] = 1.0
    bytes: Annotated[Bytes, Field(gt=0)] = 128 * 10**6


class CompactEntry(BaseModel):
    """``compact``: how the log is compacted while it is written.

    Attributes:
        commits: After so many commits the older ones are compacted; 0 for never.
        grace: Seconds for which files stay that others stand for: who has planned to read them still can.
    """

    model_config = STRICT

    commits: Annotated[StrictInt, Field(ge=0)] = 1000
    grace: Annotated[Seconds, Field(ge=0)] = 3600.0


class CaptureFile(BaseModel):
    """A capture file, checked. Relative paths in it start at ``folder``, which holds the file.

    Attributes:
        readable_by: Who may read the change log and the status besides the user that writes them.
    """

    model_config = STRICT

    capture: Annotated[str, Field(min_length=1)]
    connector: ConnectorEntry
    tables: list[Annotated[TableEntry, BeforeValidator(_table)]] | None = None
    log: StoredPath
    store: StoreEntry | None = None
    commit: CommitEntry = CommitEntry()
    compact: CompactEntry = CompactEntry()
    retain: RetainEntry | None = None
    verify: VerifyEntry | None = None
    readable_by: Literal["owner", "group", "all"] = "group"
    metrics: MetricsEntry | None = None
    notify: NotifyEntry | None = None
    spark: SparkEntry | None = None
    _path: Path = PrivateAttr(default=Path())

    @classmethod
    def checked(cls, content: Any, path: Path) -> CaptureFile:
        """The capture file at ``path`` with this content.

        Raises:
            pydantic.ValidationError: With every mistake, except in YAML itself.
        """
        file = cls.model_validate(content)
        file._path = path
        return file

    @property
    def path(self) -> Path:
        return self._path

    @property
    def folder(self) -> Path:
        return self._path.absolute().parent

    @property
    def log_place(self) -> str:
        """Where the change log is: a directory's path, or a URL."""
        return self.log if isinstance(self.log, str) else str(self.folder / self.log)

    def log_store(self, retried: timedelta = RETRIED) -> Store:
        """What the change log is in. Nothing is asked of it yet.

        Args:
            retried: For how long a request to an object store is tried again.

        Raises:
            UsageError: As ``opened`` and ``store_settings``.
        """
        place = self.log_place
        return opened(place, self.store_settings if is_url(place) else None, retried)

    @property
    def store_settings(self) -> StoreSettings | None:
        """What opens the stores of log and warehouse, with its secrets.

        Raises:
            UsageError: ``TM-CFG-003`` naming every secret that cannot be read.
        """
        return None if self.store is None else self.store.settings(self.folder)
