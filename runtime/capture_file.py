"""The capture file: one YAML file that says what to capture, with which connector, and where to.

Everything wrong with a file is said at once, with its line and, for a misspelt key, the key that was probably meant.
Messages name places, never the values at them: they may be secrets.
"""

from __future__ import annotations

import difflib
import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from protocol.errors import UsageError

_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kKMG]i?)?B")
_BYTES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "ki": 2**10, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}

Mode = Literal["current", "history", "scd2"]
"""Tables that Spark keeps of a captured table."""


def _seconds(value: object) -> object:
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise ValueError("a duration is a number with a unit, such as 500ms, 1s or 2m")
        return float(match[1]) * _SECONDS[match[2]]
    return value


def _bytes(value: object) -> object:
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            raise ValueError("a size is a number with a unit, such as 64MB or 128MiB")
        return int(Decimal(match[1]) * _BYTES[match[2] or ""])
    return value


def _table(value: object) -> object:
    return {"table": value} if isinstance(value, str) else value


def _modes(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _local_path(value: object) -> object:
    if not isinstance(value, str):
        return value
    if re.match(r"[a-z][a-z0-9+]+://", value):
        raise ValueError("object stores are not supported yet: give a local path")
    if not value or "\0" in value:
        raise ValueError("a path is not empty and holds no NUL")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise ValueError("there is no home directory of this user") from None


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ConnectorEntry(Part):
    """``connector``: an image or a command, and its configuration with secrets still unresolved.

    Attributes:
        network: The engine's network that the container joins; ``host`` reaches a database on this machine.
    """

    image: Annotated[str, Field(min_length=1)] | None = None
    command: Annotated[list[str], Field(min_length=1)] | None = None
    network: str = ""
    config: dict[str, JsonValue] = {}

    @model_validator(mode="after")
    def _one_way_to_run(self) -> ConnectorEntry:
        if (self.image is None) == (self.command is None):
            raise ValueError("give exactly one of image and command")
        if self.network and self.image is None:
            raise ValueError("network is for an image, a command has the network of this machine")
        return self


class TableEntry(Part):
    """One entry of ``tables``: a table or a pattern with ``*``, and options that go to the connector.

    Attributes:
        table: ``schema.table``, or a pattern such as ``sales.*``.
        exclude: Columns left out.
        hash: Columns of which the connector gives a salted hash.
        scan: How the backfill walks through the table: ``key``, ``physical``, ``snapshot`` or ``none``.
        key: Columns that identify a row, instead of the primary key.
        where: SQL that limits the backfill.
        priority: Tables of a higher priority are backfilled first.
        text: Columns that the change log keeps as text whatever their type.
        backfill: Raise it by one to have the table backfilled again from the start.
    """

    table: Annotated[str, Field(min_length=1)]
    exclude: list[str] = []
    hash: list[str] = []
    scan: Literal["key", "physical", "snapshot", "none"] | None = None
    key: list[str] = []
    where: str = ""
    priority: int = 0
    text: list[str] = []
    backfill: Annotated[int, Field(ge=0)] = 0

    @property
    def is_pattern(self) -> bool:
        return "*" in self.table

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given, as the connector's resource configuration names them."""
        return self.model_dump(include={"exclude", "hash", "scan", "key", "where", "priority"}, exclude_defaults=True)


class CommitEntry(Part):
    """``commit``: when a commit is due. ``interval`` in seconds, ``bytes`` of documents."""

    interval: Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=86_400)] = 1.0
    bytes: Annotated[int, BeforeValidator(_bytes), Field(gt=0)] = 128 * 10**6


class SparkEntry(Part):
    """``spark``: which tables to keep of which captured tables, ``*`` standing for all others."""

    format: Literal["delta", "iceberg", "parquet"] = "delta"
    warehouse: Annotated[Path, BeforeValidator(_local_path)]
    tables: dict[str, Annotated[list[Mode], BeforeValidator(_modes), Field(min_length=1)]] = {"*": ["current"]}


class CaptureFile(Part):
    """A capture file, checked. Relative paths in it start at ``folder``, which holds the file."""

    capture: Annotated[str, Field(min_length=1)]
    connector: ConnectorEntry
    tables: list[Annotated[TableEntry, BeforeValidator(_table)]] | None = None
    log: Annotated[Path, BeforeValidator(_local_path)]
    commit: CommitEntry = CommitEntry()
    spark: SparkEntry | None = None
    _folder: Path = PrivateAttr(default=Path())

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def log_path(self) -> Path:
        return self._folder / self.log


def read_capture_file(path: Path) -> CaptureFile:
    """Reads and checks a capture file.

    Raises:
        UsageError: ``TM-CFG-001`` no such file or not YAML, ``TM-CFG-002`` mistakes in it, all of them at once.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UsageError("TM-CFG-001", f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError("TM-CFG-001", f"{path} is not UTF-8 text") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
        mistakes = _repeated_keys(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise UsageError("TM-CFG-001", f"{path} is not YAML:{place} {error.problem}") from None
    except yaml.YAMLError:
        raise UsageError("TM-CFG-001", f"{path} is not YAML: it holds characters that YAML does not allow") from None
    except RecursionError:
        raise UsageError("TM-CFG-001", f"{path} is nested too deep") from None
    except ValueError:  # of a date or number; YAML's reader does not say which
        raise UsageError(
            "TM-CFG-001", f"{path} is not YAML: a value looks like a date or a number, and there is none such"
        ) from None
    if root is None or not isinstance(content, dict):
        raise UsageError("TM-CFG-001", f"{path} holds no entries such as capture, connector and log")
    checked = None
    try:
        checked = CaptureFile.model_validate(content)
    except ValidationError as error:
        mistakes += [
            (_line(root, problem["loc"]), _mistake(problem["loc"], problem["type"], problem["msg"]))
            for problem in error.errors(include_input=False, include_url=False)
        ]
    if checked is None or mistakes:
        listed = "".join(f"\n  line {line}: {text}" for line, text in sorted(set(mistakes)))
        raise UsageError("TM-CFG-002", f"{path} has {_count(len(set(mistakes)), 'mistake')}:{listed}")
    checked._folder = path.absolute().parent
    return checked


def near(name: str, known: list[str]) -> str:
    """A hint that names what was probably meant; empty when nothing is near."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


Loc = tuple[int | str, ...]


def _mistake(loc: Loc, kind: str, message: str) -> str:
    place = ".".join(map(str, loc)) or "the file"
    if kind == "extra_forbidden":
        known = list(_model(loc[:-1]).model_fields)
        return f"{place}: unknown key{near(str(loc[-1]), known)}"
    if kind == "missing":
        return f"{place}: missing"
    return f"{place}: {message.removeprefix('Value error, ')}"


def _model(loc: Loc) -> type[BaseModel]:
    """The model that a place of the file is checked against."""
    model: type[BaseModel] = CaptureFile
    for part in loc:
        if isinstance(part, str) and part in model.model_fields:
            model = _inner_model(model.model_fields[part].annotation) or model
    return model


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _inner_model(part))), None)


def _line(root: yaml.Node, loc: Loc) -> int:
    """The line, from 1, of the deepest part of ``loc`` that the file has."""
    node, line = root, root.start_mark.line
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _repeated_keys(node: yaml.Node | None) -> list[tuple[int, str]]:
    """Keys that stand twice in a mapping: YAML readers take the last one without a word."""
    found: list[tuple[int, str]] = []
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    found.append((key.start_mark.line + 1, f"{key.value}: stands twice"))
                seen.add(key.value)
            found += _repeated_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            found += _repeated_keys(item)
    return found
