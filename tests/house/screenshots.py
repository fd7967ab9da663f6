"""The pictures of docs/page.md: a page about a real capture of a small shop, in a headless Chromium.

python -m tests.house.screenshots    write them, in about two minutes; somebody has to look at them
"""

from __future__ import annotations

import json
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tests.house.files import ROOT
from tests.house.small_png import smaller
from tests.runtime.page.shown_capture import ask
from tests.warm_jvm import warm_jvm
from tidemark.demo.processes import TIDEMARK
from tidemark.protocol.changelog.consumers import register
from tidemark.protocol.store.local import DirectoryStore
from tidemark.testing.chromium import Chromium, chromium, no_chromium
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Postgres, fresh_database, own_server

SECONDS = float(os.environ.get("TIDEMARK_TEST_SECONDS", "60"))
"""How long the capture runs before it is photographed: its charts are to have something to show."""

LARGEST = 150_000
"""Bytes of a picture."""

PICTURES = {
    "page-light": (1280, 1180, "light"),
    "page-dark": (1280, 1180, "dark"),
    "page-phone": (390, 1500, "light"),
}
"""Width, height and colours of each."""

TABLES = {
    "addresses": 4000,
    "carts": 9000,
    "coupons": 300,
    "customers": 4000,
    "events": 260_000,
    "invoices": 5000,
    "order_items": 12_000,
    "orders": 5000,
    "payments": 5000,
    "products": 800,
    "reviews": 50_000,
    "shipments": 4000,
}
"""Rows of each at first."""

KEPT = {"public.orders": ["current", "history"], "public.customers": "current"}
"""In Spark."""

WRITTEN = ("orders", "order_items", "payments", "invoices", "customers")

LATER = ("events", "reviews")
"""Read last, and not to the end."""


def main() -> int:
    """Writes the pictures. Returns the exit status."""
    if (reason := no_chromium()) is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    settings = {"max_slot_wal_keep_size": "1GB", "max_wal_size": "2GB"}
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-shop-") as folder,
        own_server(settings) as server,
        fresh_database(server, "shop") as database,
        chromium() as browser,
    ):
        _fill(database)
        with _captured(database, Path(folder)) as port:
            _live(database, Path(folder), port)
            for name, of in PICTURES.items():
                _take(browser, f"http://127.0.0.1:{port}/", ROOT / "docs" / f"{name}.png", *of)
    return 0


def _fill(database: Postgres) -> None:
    with database.connect() as admin:
        for name, rows in TABLES.items():
            admin.execute(f"CREATE TABLE {name} (id bigserial PRIMARY KEY, what text, amount int)")
            fill = f"INSERT INTO {name} (what, amount) SELECT repeat('x', 200), i FROM generate_series(1, {rows}) i"
            admin.execute(fill)
        admin.execute("ANALYZE")


@contextmanager
def _captured(database: Postgres, folder: Path) -> Iterator[int]:
    """A capture that runs, and the port of its page."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    connector = [sys.executable, "-m", "tests.captures.impatient", "2", "0.5", "tidemark.connectors.postgres"]
    backfill = {"max_rate": "3000 rows", "chunk_rows": 500, "readers": 2}
    content = {
        "capture": "shop",
        "connector": {
            "command": connector,
            "config": {**database.config(), "on_alter": "ask", "heartbeat_seconds": 2, "backfill": backfill},
        },
        "tables": [{"table": f"public.{name}", "priority": -1 if name in LATER else 0} for name in TABLES],
        "log": "shop.log",
        "commit": {"interval": "500ms"},
        "metrics": {"listen": f"127.0.0.1:{port}"},
        "spark": {
            "warehouse": "lake",
            "tables": {"public.orders": ["current", "history"], "public.customers": "current"},
        },
    }
    (folder / "shop.yaml").write_text(json.dumps(content))
    command = [sys.executable, "-m", "tests.runtime.page.hurried", "capture", "shop.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "output").open("wb") as output:
        running = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, env=environment)
    try:
        yield port
    finally:
        running.terminate()
        running.wait(timeout=60)


def _live(database: Postgres, folder: Path, port: int) -> None:
    """What happens to the shop while it is captured."""
    over = threading.Event()
    writer = threading.Thread(target=_write, args=(database, over))
    writer.start()
    try:
        _wait_for(port, "done", *(set(TABLES) - {*LATER}))
        _run(folder, "pause", "shop.yaml", "-t", "public.reviews")
        _run(folder, "materialize", "shop.yaml", "--available-now", environment=warm_jvm())
        register(DirectoryStore(folder / "shop.log"), "nightly report", 30_000)
        with database.connect() as admin:
            admin.execute("ALTER TABLE shipments ALTER COLUMN amount TYPE bigint")
            admin.execute("DROP TABLE coupons")
        _wait_for(port, "set aside", "coupons")
        over.wait(SECONDS / 2)
    finally:
        over.set()
        writer.join()


def _write(database: Postgres, over: threading.Event) -> None:
    """Writes as a shop does that has more visitors at some times than at others."""
    drawn = random.Random(7)
    began = time.monotonic()
    with database.connect() as connection:
        while not over.wait(0.25):
            if drawn.random() < 0.03:  # A large transaction: the capture is behind for a moment.
                connection.execute("UPDATE order_items SET amount = amount + 1")
            busy = 1.2 + math.sin((time.monotonic() - began) / 5) + drawn.uniform(-0.3, 0.5)
            for name in WRITTEN:
                rows = max(1, round(20 * busy))
                insert = (
                    f"INSERT INTO {name} (what, amount) SELECT repeat('y', 300), i FROM generate_series(1, {rows}) i"
                )
                connection.execute(insert)


def _wait_for(port: int, state: str, *tables: str) -> None:
    def whether() -> bool:
        try:
            said = json.loads(ask(port, "/page.json")[2])
        except ConnectionError:
            return False  # Not yet.
        states = {row["name"]: row["state"] for row in said["tables"]["shown"]}
        return all(states.get(f"public.{name}") == state for name in tables)

    wait_until(whether, 30, f"{', '.join(tables)}: {state}")


def _run(folder: Path, *arguments: str, environment: Mapping[str, str] = MappingProxyType({})) -> None:
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    ended = subprocess.run([*TIDEMARK, *arguments], cwd=folder, env=whole, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _take(browser: Chromium, url: str, path: Path, width: int, height: int, scheme: str) -> None:
    browser.size(width, height, phone=width < 500)
    browser.prefer(color_scheme=scheme)
    browser.open(url)
    wait_until(lambda: browser.run("return document.querySelector('#spark')?.checkVisibility()"), 60, "all is shown")
    picture = smaller(browser.picture())
    assert len(picture) < LARGEST, f"{path.name} has {len(picture):,} bytes"
    path.write_bytes(picture)
    sys.stdout.write(f"{path.relative_to(ROOT)}: {len(picture):,} bytes; look at it\n")


if __name__ == "__main__":
    sys.exit(main())
