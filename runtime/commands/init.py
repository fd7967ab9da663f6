"""``tidemark init``: a capture file to start from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tidemark.protocol.errors import TidemarkError, UsageError

TEMPLATE = """\
# What to capture, with which connector, into which change log. 'tidemark check {name}' lists what is missing.

capture: shop                           # the name of the capture; its change log records it

{connector}
# Without this entry, every table that the connector discovers is captured.
# tables:
#   - {schema}.orders
#   - "sales.*"
#   - {{table: {schema}.users, exclude: [ssn]}}
#   - {{table: {schema}.events, where: "{where}", priority: 1}}

log: ./shop.log                         # the change log; the first run creates it

commit:
  interval: 1s                          # a change is readable about this long after its commit in the source
  bytes: 128MB                          # or earlier, once this much has arrived

spark:
  format: delta
  warehouse: ./lake
  tables: {{"*": current}}                # current, history; for one table:   {schema}.orders: [current, history]
"""

POSTGRES = """\
connector:
  # or: image: tidemark/postgres (and network: host, for a local database)
  command: [python, -m, tidemark.connectors.postgres]
  config:
    host: localhost
    port: 5432
    database: shop
    user: cdc
    password: {env: PGPASSWORD}         # or   {file: ./password}, to keep secrets out of this file
"""

MYSQL = """\
connector:
  # or: image: tidemark/mysql (and network: host, for a local database)
  command: [python, -m, tidemark.connectors.mysql]
  config:
    host: localhost
    port: 3306
    user: cdc
    password: {env: MYSQL_PASSWORD}     # or   {file: ./password}, to keep secrets out of this file
"""

SOURCES = {
    "postgres": {"connector": POSTGRES, "schema": "public", "where": "created_at > now() - interval '1 year'"},
    "mysql": {"connector": MYSQL, "schema": "shop", "where": "created_at > now() - interval 1 year"},
}


def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the file.")] = Path("capture.yaml"),
    source: Annotated[
        Literal["postgres", "mysql"], typer.Option(help="The database; mysql includes MariaDB.")
    ] = "postgres",
) -> None:
    """Write a commented capture file to start from."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=path, **SOURCES[source]))
    except FileExistsError:
        raise UsageError("TM-CFG-006", f"{path} already exists") from None
    except OSError as error:
        raise TidemarkError("TM-RUN-013", f"{path} cannot be written: {error.strerror}") from None
    sys.stdout.write(f"wrote {path}\nnext: edit it, then   tidemark check {path}   and   tidemark capture {path}\n")
