"""The services of ``deploy/compose``: what they name is there, and from nothing a row comes into a table."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.composed import FILE, composed, images
from tests.deploy.engine import runtime_image
from tests.examples import ALL
from tests.runtime.metrics.test_alerts import promtool
from tidemark.protocol.capture_file import read_capture_file
from tidemark.testing.missing import lacks

FOLDER = FILE.parent
CAPTURES = sorted((FOLDER / "captures").glob("*.yaml"))


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
    return found


def test_what_is_mounted_is_there(services: dict[str, dict[str, Any]]) -> None:
    volumes = yaml.safe_load(FILE.read_text())["volumes"]
    sources = {volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    files = {source for source in sources if source.startswith(".")}
    assert sources - files == volumes.keys()
    assert [file for file in files if not (FOLDER / file).exists()] == []


def test_every_variable_has_a_value() -> None:
    without = [name for name, rest in re.findall(r"\$\{(\w+)(.*?)\}", FILE.read_text()) if not rest.startswith(":-")]
    assert without == []


def test_every_image_has_a_version() -> None:
    assert all(re.search(r":v?\d+", image) for image in images()), images()


@pytest.mark.parametrize("path", CAPTURES, ids=[path.stem for path in CAPTURES])
def test_the_capture_files_are_right_and_their_secrets_are_given(
    path: Path, services: dict[str, dict[str, Any]]
) -> None:
    capture = read_capture_file(path)
    assert capture.connector.config["host"] in services
    secrets = set(re.findall(r"\{env: (\w+)\}", path.read_text()))
    for name in ("capture", f"spark-{capture.capture}"):
        assert secrets <= services[name]["environment"].keys()
        assert services[name]["command"][1] in ("/etc/tidemark", f"/etc/tidemark/{path.name}")


def test_prometheus_asks_everything_by_a_name_that_is_answered() -> None:
    asked = yaml.safe_load((FOLDER / "monitors" / "prometheus.yaml").read_text())["scrape_configs"]
    targets = {target for job in asked for group in job["static_configs"] for target in group["targets"]}
    served = set()
    for capture in map(read_capture_file, CAPTURES):
        assert capture.spark is not None
        for entry in (capture.metrics, capture.spark.metrics):
            assert entry is not None and entry.host == ""
            served |= {f"{host}:{entry.address[1]}" for host in entry.hosts}
    assert served == targets


def test_prometheus_reads_its_file(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "monitors" / "prometheus.yaml", tmp_path)
    shutil.copy(FOLDER.parent / "alerts" / "tidemark.rules.yaml", tmp_path)
    promtool("check", "config", str(tmp_path / "prometheus.yaml"))


ROWS = """
import os, sys
from deltalake import DeltaTable
options = {"AWS_ENDPOINT_URL": "http://objects:7070", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
           "AWS_ACCESS_KEY_ID": os.environ["OBJECTS_KEY"], "AWS_SECRET_ACCESS_KEY": os.environ["OBJECTS_SECRET"]}
print(DeltaTable(sys.argv[1], storage_options=options).to_pyarrow_table().num_rows)
"""

UP = """
import json, urllib.request
asked = urllib.request.urlopen("http://prometheus:9090/api/v1/query?query=sum(up)")
print(json.load(asked)["data"]["result"][0]["value"][1])
"""

NEW_ORDER = "INSERT INTO orders (item, total) VALUES ('new', 1)"
NEW_TICKET = """
mariadb --user=root --password="$MARIADB_ROOT_PASSWORD" support --execute="INSERT INTO tickets VALUES (2000, 'new', 1)"
"""


@pytest.mark.docker
@pytest.mark.slow
def test_from_nothing_to_a_row(tmp_path: Path) -> None:
    if not ALL:
        pytest.skip(lacks("nine services are not started in every run", "TIDEMARK_TEST_ALL=1"))
    runtime_image()
    tables = {"shop": "public/orders", "support": "support/tickets"}
    with composed(tmp_path) as services:
        for name, table in tables.items():
            place = f"s3://tidemark/lake/{name}/{table}/current"
            services.wait_for(f"spark-{name}", "python", "-c", ROWS, place, answer="1000")
        services.execute("postgres", "psql", "--username=postgres", "--dbname=shop", f"--command={NEW_ORDER}")
        services.execute("mariadb", "sh", "-c", NEW_TICKET)
        for name, table in tables.items():
            place = f"s3://tidemark/lake/{name}/{table}/current"
            services.wait_for(f"spark-{name}", "python", "-c", ROWS, place, answer="1001")
        services.wait_for("capture", "python", "-c", UP, answer="4")
