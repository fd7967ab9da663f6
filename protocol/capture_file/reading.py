"""Reads capture files.

All mistakes of a file are reported at once, with their lines and, for a misspelt key, the key that was probably meant.
Messages never have values, because they may be secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel, ValidationError

from tidemark.protocol.capture_file.model import CaptureFile
from tidemark.protocol.errors import UsageError
from tidemark.protocol.text.nearest_names import near

if TYPE_CHECKING:
    from tidemark.protocol.capture_file.yaml_places import Loc


def read_capture_file(path: Path) -> CaptureFile:
    """Reads and checks a capture file.

    Raises:
        UsageError: ``TM-CFG-001`` no such file or not YAML, ``TM-CFG-002`` mistakes in it, all of them at once,
            ``TM-RUN-012`` without the YAML reader.
    """
    try:
        # Imported here: connectors and executors read no capture file, and may lack the YAML reader.
        from tidemark.protocol.capture_file.yaml_places import Document
    except ModuleNotFoundError as error:
        raise UsageError(
            "TM-RUN-012", f"reading {path} needs the Python package {error.name}", remedy="pip install pyyaml"
        ) from None
    document = Document.read(path)
    mistakes = document.repeated
    checked = None
    try:
        checked = CaptureFile.checked(document.content, path)
    except ValidationError as error:
        mistakes += [
            (document.line_of(problem["loc"]), _mistake(problem["loc"], problem["type"], problem["msg"]))
            for problem in error.errors(include_input=False, include_url=False)
        ]
    if checked is None or mistakes:
        raise _wrong(path, mistakes)
    return checked


def mistakes_in(file: CaptureFile, mistakes: Sequence[tuple[Loc, str]]) -> UsageError:
    """The error for mistakes that other modules found, such as those in ``connector.config``, each with its place."""
    from tidemark.protocol.capture_file.yaml_places import Document

    document = Document.read(file.path)
    return _wrong(file.path, [(document.line_of(loc), f"{'.'.join(map(str, loc))}: {text}") for loc, text in mistakes])


def _wrong(path: Path, mistakes: Sequence[tuple[int, str]]) -> UsageError:
    distinct = sorted(set(mistakes))
    listed = "".join(f"\n  line {line}: {text}" for line, text in distinct)
    count = "1 mistake" if len(distinct) == 1 else f"{len(distinct)} mistakes"
    return UsageError("TM-CFG-002", f"{path} has {count}:{listed}")


def _mistake(loc: Loc, kind: str, message: str) -> str:
    # Of a mapping's key, pydantic says so behind the key itself.
    place = ".".join(str(part) for part in loc if part != "[key]") or "the file"
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
