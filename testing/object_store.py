"""A server of S3's protocol for tests: one that the environment names, else moto's or versitygw.

- ``TIDEMARK_TEST_S3``: the address of a server that is there, with keys ``AWS_ACCESS_KEY_ID`` and
  ``AWS_SECRET_ACCESS_KEY`` from the environment.
- ``TIDEMARK_TEST_VERSITYGW``: a versitygw program to start.
- ``make versitygw`` makes one. Then every other process of tests starts it, and the others moto's server.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import opened
from tidemark.protocol.store.settings import StoreSettings
from tidemark.testing.deadline import wait_until

_MADE = Path(sys.prefix) / "bin/versitygw"

KEY, SECRET, REGION = "tidemark-test", "not-a-secret-of-anybody", "eu-central-1"


@dataclass
class S3Server:
    """A running server.

    Attributes:
        endpoint: Its address.
        key: The id of its key.
        secret: The key.
        region: Of its buckets.
        name: What it is, for people.
    """

    endpoint: str
    key: str = KEY
    secret: str = field(default=SECRET, repr=False)
    region: str = REGION
    name: str = ""

    def bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid4().hex[:16]}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": self.region})
        return name

    def client(self) -> Any:
        """Amazon's own client, for what the product does not do."""
        import boto3  # Both take long to load.
        from botocore.config import Config

        session: Any = boto3.Session()
        return session.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name=self.region,
            config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    @property
    def settings(self) -> StoreSettings:
        """What opens it."""
        return StoreSettings(
            endpoint=self.endpoint,
            allow_http=True,
            region=self.region,
            access_key_id=self.key,
            secret_access_key=self.secret,
        )

    def place(self) -> Store:
        """A place in a new bucket."""
        return opened(f"s3://{self.bucket()}/a/log", self.settings)

    @property
    def variables(self) -> dict[str, str]:
        """What opens it without settings: variables of the environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }

    @property
    def entry(self) -> dict[str, object]:
        """The ``store`` entry of a capture file."""
        return {
            "endpoint": self.endpoint,
            "allow_http": True,
            "region": self.region,
            "access_key_id": self.key,
            "secret_access_key": self.secret,
        }


@contextmanager
def s3_server(folder: Path, *, lies: int = 0) -> Iterator[S3Server]:
    """A server until the end of the block.

    Args:
        folder: For what a server that keeps files has.
        lies: Of every so many objects that it creates, one is created whether it is there or not; 0 for none.
    """
    given, program = os.environ.get("TIDEMARK_TEST_S3"), None if lies else _versitygw()
    if given and not lies:
        yield S3Server(given, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], name=given)
        return
    port = _free_port()
    if program:
        folder.mkdir(parents=True, exist_ok=True)
        command = [program, "--port", f"127.0.0.1:{port}", "--region", REGION, "posix", str(folder)]
    else:
        command = [
            sys.executable,
            "-m",
            "tidemark.testing.moto_server",
            str(port),
            *(["--lies", str(lies)] if lies else []),
        ]
    environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET, "MOTO_S3_CUSTOM_ENDPOINTS": ""}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _answers(port, process), 60, "the server of S3 answers")
            yield S3Server(f"http://127.0.0.1:{port}", name="versitygw" if program else "moto")
        finally:
            process.kill()


def sources() -> str:
    """The servers of a run, for people."""
    if given := os.environ.get("TIDEMARK_TEST_S3"):
        return given
    if named := os.environ.get("TIDEMARK_TEST_VERSITYGW"):
        return named
    return "moto's and versitygw" if _MADE.exists() else "moto's; versitygw is not here (make versitygw)"


def _versitygw() -> str | None:
    """The program, where this process is to start it."""
    if named := os.environ.get("TIDEMARK_TEST_VERSITYGW"):
        return named
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw1").removeprefix("gw")
    return str(_MADE) if _MADE.exists() and int(worker) % 2 else None


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the server of S3 has ended"
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
