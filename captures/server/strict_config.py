"""Reads a part of a connector's configuration, and reports its mistakes."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, WithJsonSchema

from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

M = TypeVar("M", bound=BaseModel)

Secret = Annotated[SecretStr, WithJsonSchema({"type": "string", "secret": True})]
"""A secret. Flow's runtime does not accept pydantic's format ``password``."""


class Strict(BaseModel):
    """A part of the configuration; an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parsed_endpoint(model: type[M], config: JsonObject, code: str) -> M:
    """Validates ``config``. Raises SourceError ``code`` that names every wrong field, never a value."""
    return _parsed(model, config, "config", code)


def parsed_resource(model: type[M], config: JsonObject, code: str) -> M:
    """Raises SourceError ``code``."""
    where = ".".join(str(config.get(name, "?")) for name in ("schema", "table"))
    return _parsed(model, config, f"resource {where}", code)


def _parsed(model: type[M], config: JsonObject, what: str, code: str) -> M:
    try:
        return model.model_validate(config)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or what}: {e['msg']}" for e in error.errors(include_input=False)
        )
        raise SourceError(code, f"{what}: {wrong}") from None
