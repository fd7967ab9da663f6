"""A server of S3's protocol for tests: one that the environment names, else moto's in a process of its own.

- ``TIDEMARK_TEST_S3``: the address of a server that is there, with keys ``AWS_ACCESS_KEY_ID`` and
  ``AWS_SECRET_ACCESS_KEY`` from the environment.
- ``TIDEMARK_TEST_VERSITYGW``: a versitygw program to start.
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

import boto3
from botocore.config import Config

from tests.servers.deadline import wait_until
from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import opened
from tidemark.protocol.store.settings import StoreSettings

KEY, SECRET, REGION = "tidemark-test", "not-a-secret-of-anybody", "eu-central-1"


@dataclass
class S3Server:
    """A running server.

    Attributes:
        endpoint: Its address.
        key: The id of its key.
        secret: The key.
    """

    endpoint: str
    key: str = KEY
    secret: str = field(default=SECRET, repr=False)
    region: str = REGION

    def bucket(self) -> str:
        """A new bucket."""
        name = f"test-{uuid4().hex[:16]}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": self.region})
        return name

    def client(self) -> Any:
        """Amazon's own client, for what the product does not do."""
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
def s3_server(folder: Path, *, lies: bool = False) -> Iterator[S3Server]:
    """A server until the end of the block.

    Args:
        folder: For what a server that keeps files has.
        lies: Its conditional writes are not conditional.
    """
    given, program = os.environ.get("TIDEMARK_TEST_S3"), os.environ.get("TIDEMARK_TEST_VERSITYGW")
    if given and not lies:
        yield S3Server(given, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        return
    port = _free_port()
    if program and not lies:
        folder.mkdir(parents=True, exist_ok=True)
        command = [program, "--port", f"127.0.0.1:{port}", "--region", REGION, "posix", str(folder)]
    else:
        command = [sys.executable, "-m", "tests.servers.moto_server", str(port), *(["--lies"] if lies else [])]
    environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET, "MOTO_S3_CUSTOM_ENDPOINTS": ""}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _answers(port, process), 60, "the server of S3 answers")
            yield S3Server(f"http://127.0.0.1:{port}")
        finally:
            process.kill()


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the server of S3 has ended"
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
