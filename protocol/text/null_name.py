"""The policy for bad values whose name is ``null``, in configurations of the runtime and of connectors."""

from __future__ import annotations

from pydantic import BeforeValidator


def _spelt_out(value: object) -> object:
    if isinstance(value, dict):
        return {name: _spelt_out(part) for name, part in value.items()}
    return "null" if value is None else value


NULL_IS_A_NAME = BeforeValidator(_spelt_out)
"""In YAML and JSON the policy's name ``null`` is a null, unless it is quoted."""
