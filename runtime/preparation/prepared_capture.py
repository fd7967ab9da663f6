"""From a capture file to a capture that can be opened: the calls that come before ``open``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from pathlib import Path

import msgspec
import orjson

from tidemark.protocol.batches import ARROW
from tidemark.protocol.capture_file import CaptureFile, LimitsEntry, mistakes_in
from tidemark.protocol.capture_file.model import ANSWER_SECONDS, SILENCE_SECONDS
from tidemark.protocol.changelog.known_tables import known_tables
from tidemark.protocol.environment import (
    BATCHES,
    CHECK,
    KNOWN_STATE,
    LOG_ID,
    PLAN,
    REQUEST,
    RUNTIME,
    STOP_WHEN_CAUGHT_UP,
)
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import LEFT_OUT
from tidemark.protocol.messages import (
    Applied,
    Binding,
    CaptureSpec,
    ConnectorState,
    DiscoveredBinding,
    JournalTemplate,
    JsonObject,
    ShardTemplate,
    SpecResponse,
)
from tidemark.runtime.connector.calls import Caller
from tidemark.runtime.connector.early_starts import EarlyStarts
from tidemark.runtime.connector.interface import Connector, LogSink
from tidemark.runtime.connector.process import ProcessConnector
from tidemark.runtime.connector.secrets import SHORTEST, Redactor
from tidemark.runtime.preparation.config_check import Place, mistakes
from tidemark.runtime.preparation.secret_values import resolve
from tidemark.runtime.preparation.selection import SelectedTable, Selection, select, state_key, template_name
from tidemark.runtime.preparation.table_options import option_mistakes


@dataclass(frozen=True, slots=True)
class PreparedCapture:
    """Everything a session needs to be opened.

    Attributes:
        environment: Variables for the connector.
        spec: The whole capture for the connector, with secrets resolved: it must not be written anywhere.
        version: Changes when the bindings do.
        silence_seconds: The most seconds without output of the connector; 0 for no limit.
        answer_seconds: The most seconds until it answers a request.
        applied: The change of the connector's state from ``apply``; None once the log has it.
        file: Of the capture.
    """

    connector: Connector
    environment: dict[str, str]
    redactor: Redactor
    spec: CaptureSpec
    tables: list[SelectedTable]
    version: str
    silence_seconds: float = SILENCE_SECONDS
    answer_seconds: float = ANSWER_SECONDS
    applied: ConnectorState | None = None
    file: CaptureFile | None = None

    def with_secrets_of_now(self) -> PreparedCapture:
        """The same capture with its secrets read again: they may be others by now.

        Raises:
            UsageError: ``TM-CFG-003`` a secret cannot be read.
        """
        if self.file is None:
            return self
        entry, folder = self.file.connector, self.file.folder
        config, secrets = resolve(entry.config, folder)
        variables, more = resolve(entry.environment, folder, "environment")
        return replace(
            self,
            environment={**self.environment, **_variables(variables)},
            redactor=Redactor(secrets.values | more.values),
            spec=msgspec.structs.replace(self.spec, config=config),
        )


class Preparation:
    """Makes the unary calls for one capture file.

    Attributes:
        reasons: Why tables are disabled, by recommended name, as far as the connector gives reasons.

    Args:
        file: The checked capture file.
        log: Takes the connector's log lines.
        until_caught_up: The connector ends once it is caught up.
        variables: More variables for the connector's environment.
        log_id: The id of the change log; empty without one.
        state: The connector's state in the change log.

    Raises:
        UsageError: ``TM-CFG-003`` a secret cannot be read.
    """

    def __init__(
        self,
        file: CaptureFile,
        log: LogSink,
        *,
        until_caught_up: bool = False,
        variables: Mapping[str, str] | None = None,
        log_id: str = "",
        state: JsonObject | None = None,
    ) -> None:
        self._file = file
        self._config, secrets = resolve(file.connector.config, file.folder)
        variables_of_file, more_secrets = resolve(file.connector.environment, file.folder, "environment")
        self.redactor = Redactor(secrets.values | more_secrets.values)
        for place in (*secrets.short, *more_secrets.short):
            text = f"{place} is too short to be blanked: a connector's message that contains it would show it"
            log(LogLine(level="warning", message=f"{text}. Choose one with at least {SHORTEST} characters."))
        self.connector = EarlyStarts(_connector(file, log))
        self.environment = {
            **_variables(variables_of_file),
            "FLOW_RUNTIME_CODEC": "json",
            "LOG_FORMAT": "json",
            RUNTIME: "1",
            "LOG_LEVEL": os.environ.get("LOG_LEVEL", "info"),
            # Set in both cases: an inherited variable must not end every session.
            STOP_WHEN_CAUGHT_UP: "1" if until_caught_up else "",
            PLAN: "",
            CHECK: "",
            LOG_ID: log_id,
            KNOWN_STATE: _small(state or {}),
            **(variables or {}),
        }
        self._log = log
        self.reasons: dict[str, str] = {}
        self._caller = Caller(self.connector, self.environment, self.redactor, self._hear, file.connector.answer)

    def _hear(self, line: LogLine) -> None:
        if line.event_type == LEFT_OUT:
            self.reasons[str(line.fields.get("table"))] = str(line.fields.get("reason"))
        else:
            self._log(line)

    def begin(self, *kinds: str) -> None:
        """Starts the processes of calls that will be made: each imports what its own takes. Raises as ``Caller``."""
        for kind in kinds:
            self.connector.begin(self._caller.environment(kind))

    def begin_session(self, tables: Sequence[SelectedTable] | None = None) -> None:
        """Starts the process that will be opened, unless it was started already. Raises as ``Caller``.

        Args:
            tables: Those that are captured; by default what the capture file says of them is all that is known.
        """
        given = [entry.text_columns for entry in self._file.tables or []]
        texts = given if tables is None else [table.text for table in tables]
        self.connector.begin(self._of_session(texts), session=self._file.log_store().identity)

    def discover(self) -> tuple[SpecResponse, list[DiscoveredBinding]]:
        """What the connector is and which tables it finds.

        Raises:
            UsageError: ``TM-CFG-002`` the configuration, or a table's options, do not fit the connector's schemas.
            ConnectorError: As ``Caller`` does.
        """
        spec = self._caller.spec()
        found: list[tuple[Place, str]] = []
        for place, text in mistakes(spec.config_schema, self._config):
            found.append((("connector", "config", *place), text))
        found += option_mistakes(spec, self._file.tables or [])
        if found:
            raise mistakes_in(self._file, found)
        return spec, self._caller.discover(self._config).bindings

    def select(self, spec: SpecResponse, discovered: list[DiscoveredBinding]) -> Selection:
        """The tables that the capture file chooses. Raises as ``tidemark.runtime.preparation.selection.select``."""
        return select(spec, discovered, self._file.tables, known_tables(self._file.log_store()), self.reasons)

    def validate(self, tables: list[SelectedTable]) -> PreparedCapture:
        """Asks the connector whether it can capture these tables. Raises as ``Caller`` does."""
        answer = self._caller.validate(self._capture(tables))
        # The path that the connector validated is the binding's identity from here on.
        settled = [
            replace(table, binding=_with_path(table.binding, validated.resource_path))
            for table, validated in zip(tables, answer.bindings, strict=True)
        ]
        names = [(table.name, table.binding.state_key, table.binding.resource_config) for table in settled]
        version = hashlib.sha256(orjson.dumps(names, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
        return PreparedCapture(
            self.connector,
            self._of_session([table.text for table in settled]),
            self.redactor,
            self._capture(settled),
            settled,
            version,
            self._file.connector.silence,
            self._file.connector.answer,
            file=self._file,
        )

    def apply(self, prepared: PreparedCapture) -> Applied:
        """Lets the connector create what it needs at the source. Returns its description, and its change of state."""
        return self._caller.apply(prepared.spec, prepared.version)

    def _of_session(self, texts: Sequence[Sequence[str]]) -> dict[str, str]:
        """Variables for the process that is opened.

        Args:
            texts: Of each table the columns that are kept as text.
        """
        # Such a column has the text that a document has, and not every value of a batch has that.
        return {BATCHES: "" if any(texts) else ARROW, **self.environment, REQUEST: "open"}

    def _capture(self, tables: list[SelectedTable]) -> CaptureSpec:
        return CaptureSpec(
            name=self._file.capture,
            connector_type=self.connector.kind,
            config=self._config,
            bindings=[table.binding for table in tables],
            interval_seconds=ceil(self._file.connector.interval),
            shard_template=ShardTemplate(id=template_name(f"capture/{self._file.capture}")),
            recovery_log_template=JournalTemplate(name=template_name(f"recovery/capture/{self._file.capture}")),
        )


def _variables(values: JsonObject) -> dict[str, str]:
    return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in values.items()}


def _small(state: JsonObject) -> str:
    """The members of a state that do not belong to tables, as JSON: an environment has limited space."""
    scalar = (str, int, float, bool)
    members = {name: value for name, value in state.items() if isinstance(value, scalar)}
    parts = {
        name: {inner: part for inner, part in value.items() if isinstance(part, scalar)}
        for name, value in state.items()
        if isinstance(value, dict)
    }
    return orjson.dumps(members | {name: part for name, part in parts.items() if part}).decode()


def _with_path(binding: Binding, path: list[str]) -> Binding:
    return msgspec.structs.replace(binding, resource_path=path, state_key=state_key(path, binding.backfill))


def _connector(file: CaptureFile, log: LogSink) -> Connector:
    entry = file.connector
    if entry.image is None:
        assert entry.command is not None  # the model allows exactly one
        command, renamed = present_command(entry.command, file.folder)
        if renamed:
            log(LogLine(level="warning", message=renamed))
        return ProcessConnector(command, file.folder)
    from tidemark.runtime.connector.container import ContainerConnector  # the Docker SDK takes a while to load

    return ContainerConnector(entry.image, entry.network, capture=file.capture, limits=entry.limits or LimitsEntry())


_RENAMED = {f"connectors.{name}": f"tidemark.connectors.{name}" for name in ("postgres", "mysql")}
"""Our connectors' modules, as ``python -m`` took them. The mapping goes with the next release."""


def present_command(command: Sequence[str], folder: Path) -> tuple[list[str], str]:
    """A command as it runs now, and a warning if the capture file has the former name of a module.

    Args:
        command: ``connector.command`` of a capture file.
        folder: Where it runs. With a package ``connectors`` of its own there, the name is that package's.

    Returns:
        The command, and what to tell the user; empty if nothing is to be changed.
    """
    for place, (option, module) in enumerate(pairwise(command)):
        if option == "-m" and module in _RENAMED and not (folder / "connectors").is_dir():
            present = _RENAMED[module]
            told = f"connector.command has {module}, which is now {present}: the old name works until the next release"
            return [*command[: place + 1], present, *command[place + 2 :]], told
    return list(command), ""
