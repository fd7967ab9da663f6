"""``tidemark init``: a capture file to start from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from protocol.errors import TidemarkError, UsageError

TEMPLATE = """\
# A capture: what to read, with which connector, and where to. 'tidemark check {name}' says what is still missing.

capture: shop                           # its name; the change log belongs to it

connector:
  command: [python, -m, connectors.postgres]   # or: image: tidemark/postgres (and network: host, for a local database)
  config:
    host: localhost
    port: 5432
    database: shop
    user: cdc
    password: {{env: PGPASSWORD}}         # or   {{file: ./password}}   : secrets stay out of this file

# Left out: every table the connector discovers.
# tables:
#   - public.orders
#   - "sales.*"
#   - {{table: public.users, exclude: [ssn]}}
#   - {{table: public.events, where: "created_at > now() - interval '1 year'", priority: 1}}

log: ./shop.log                         # the change log, made by the first run

commit:
  interval: 1s                          # a change is readable about this long after it was committed in the source
  bytes: 128MB                          # or earlier, when this much has come

spark:
  format: delta
  warehouse: ./lake
  tables: {{"*": current}}                # current, history; for one table:   public.orders: [current, history]
"""


def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("capture.yaml"),
) -> None:
    """Write a commented capture file to start from."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=path))
    except FileExistsError:
        raise UsageError("TM-CFG-006", f"{path} is already there") from None
    except OSError as error:
        raise TidemarkError("TM-RUN-013", f"{path} cannot be written: {error.strerror}") from None
    sys.stdout.write(f"wrote {path}\nnext: edit it, then   tidemark check {path}   and   tidemark capture {path}\n")
