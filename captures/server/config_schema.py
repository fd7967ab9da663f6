"""A configuration's JSON Schema with the keywords and formats that Flow's runtime knows: any other fails there."""

from __future__ import annotations

from typing import Annotated

from pydantic import SecretStr, WithJsonSchema

Secret = Annotated[SecretStr, WithJsonSchema({"type": "string", "secret": True})]
"""What is kept out of logs and never shown. The format ``password``, which pydantic would give it, is not known."""
