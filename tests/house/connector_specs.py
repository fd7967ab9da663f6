"""Writes what connectors answer to ``spec``, from the models of their configurations.

::

    python -m tests.house.connector_specs          write it
    python -m tests.house.connector_specs --check  write nothing; exit 1 and name each file that is out of date

A connector only reads its file: to make the answer anew takes a process four times as long.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import orjson
from pydantic import BaseModel

from tests.house.files import ROOT
from tidemark.captures.mysql.terms import config as mysql
from tidemark.captures.postgres.server import config as postgres
from tidemark.protocol.messages import PROTOCOL_VERSION

CONNECTORS = ROOT / "connectors"

_MODELS: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "mysql": (mysql.EndpointConfig, mysql.ResourceConfig),
    "postgres": (postgres.EndpointConfig, postgres.ResourceConfig),
}


def specs() -> dict[str, bytes]:
    """The content of each file, by its path below ``connectors``."""
    return {f"{name}/spec.json": _spec(*models) for name, models in _MODELS.items()}


def _spec(endpoint: type[BaseModel], resource: type[BaseModel]) -> bytes:
    body = {
        "protocol": PROTOCOL_VERSION,
        "configSchema": endpoint.model_json_schema(),
        "resourceConfigSchema": resource.model_json_schema(),
        "resourcePathPointers": ["/schema", "/table"],
    }
    return orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def main(arguments: list[str] | None = None, connectors: Path = CONNECTORS) -> int:
    """Writes or checks the files. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.connector_specs", description="Writes spec.json.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    check = parser.parse_args(arguments).check
    expected = {connectors / path: content for path, content in specs().items()}
    stale = [path for path, content in expected.items() if not path.is_file() or path.read_bytes() != content]
    for path in stale:
        if check:
            name = path.relative_to(connectors.parent)
            sys.stderr.write(f"{name} is out of date; run: python -m tests.house.connector_specs\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(expected[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
