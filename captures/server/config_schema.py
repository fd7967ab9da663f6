"""A configuration's JSON Schema, limited to the keywords and formats that Flow's runtime accepts."""

from __future__ import annotations

from typing import Annotated

from pydantic import SecretStr, WithJsonSchema

Secret = Annotated[SecretStr, WithJsonSchema({"type": "string", "secret": True})]
"""A secret. Flow's runtime does not accept pydantic's format ``password``."""
