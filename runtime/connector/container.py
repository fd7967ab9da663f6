"""A connector as a container, through the Docker Engine API.

The container's stdin, stdout and stderr come over one attached connection. It is attached before the container starts,
so not a byte is missed, and the engine keeps no copy (log driver ``none``): without it, it would write every captured
row to its own disk. The engine buffers little: when we stop reading, the connector's writes block.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import docker
import orjson
from docker.errors import APIError, DockerException
from docker.models.containers import Container
from requests.exceptions import RequestException

from tidemark.protocol.capture_file import LimitsEntry
from tidemark.protocol.errors import ConnectorError
from tidemark.runtime.connector.interface import Exit, RunningConnector

LABEL = "tidemark.connector"
"""On every container of ours; its value is the image."""

SESSION_LABEL = "tidemark.session"
"""On a container that is opened: which capture's session it is. There can be one at a time."""

DEFAULT_LIMITS = LimitsEntry()

UNPRIVILEGED = "65534:65534"
"""User and group ``nobody``, for an image that does not name a user of its own."""

FRAME_HEADER = struct.Struct(">BxxxI")
"""Stream (1 stdout, 2 stderr) and length of each piece of the attached stream, as the Engine API documents it."""

STARTED_SECONDS = 60.0
"""A container that was made longer ago and is not started was made by a runtime that has been killed since."""

RECEIVE_BYTES = 256 * 1024


class ContainerConnector:
    """Runs ``image`` on a read-only root file system, without privileges, as a user other than root.

    Args:
        network: A network of the engine, such as ``host``; empty for the engine's default.
        capture: Its name, from which the containers have theirs.
        limits: Of each container.
    """

    kind = "IMAGE"

    def __init__(
        self, image: str, network: str = "", *, capture: str = "", limits: LimitsEntry = DEFAULT_LIMITS
    ) -> None:
        self._image = image
        self._network = network
        self._capture = re.sub(r"[^A-Za-z0-9_.-]+", "-", capture) or "connector"
        self._limits = limits
        self._user = ""

    @property
    def name(self) -> str:
        return self._image

    def start(self, environment: Mapping[str, str], *, session: str = "") -> RunningConnector:
        try:
            client = docker.from_env()  # asks the engine for its version
        except (DockerException, RequestException) as error:
            raise ConnectorError("TM-RUN-007", f"no Docker engine answers: {_words(error)}") from None
        try:
            if not self._user:
                self._user = self._inspect(client)
            if session:
                _remove_left(client, session)
            return self._run(client, environment, session)
        except (DockerException, RequestException) as error:
            client.close()
            raise ConnectorError("TM-RUN-009", f"{self._image}: {_words(error)}") from None
        except BaseException:
            client.close()
            raise

    def _inspect(self, client: docker.DockerClient) -> str:
        """Finds the image, or pulls it, and says which user it is to run as."""
        try:
            image = client.images.get(self._image)
        except APIError as missing:
            if missing.status_code not in (400, 404):  # a name that cannot be one; not there
                raise
            try:
                image = client.images.pull(self._image)
            except (DockerException, RequestException) as error:
                raise ConnectorError(
                    "TM-RUN-008", f"image {self._image} is not available and cannot be pulled: {_words(error)}"
                ) from None
        config: dict[str, Any] = image.attrs.get("Config") or {}
        labels = config.get("Labels") or {}
        for label, wanted in (("FLOW_RUNTIME_PROTOCOL", "capture"), ("FLOW_RUNTIME_CODEC", "json")):
            if (found := labels.get(label, wanted)) != wanted:
                raise ConnectorError("TM-RUN-008", f"image {self._image} has the label {label}={found}, not {wanted}")
        user = str(config.get("User") or "")
        return UNPRIVILEGED if user.partition(":")[0] in ("", "0", "root") else user

    def _run(self, client: docker.DockerClient, environment: Mapping[str, str], session: str) -> RunningConnector:
        limits = self._limits
        container = client.containers.create(
            self._image,
            name=f"tidemark-{self._capture}-{'session' if session else 'question'}-{uuid4().hex[:8]}",
            mem_limit=limits.memory,
            memswap_limit=limits.memory,  # no more with swap than without
            pids_limit=limits.processes,
            nano_cpus=None if limits.cpus is None else int(limits.cpus * 1e9),
            environment=dict(environment),
            labels={LABEL: self._image} | ({SESSION_LABEL: session} if session else {}),
            user=self._user,
            stdin_open=True,
            read_only=True,
            tmpfs={"/tmp": ""},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            log_config=docker.types.LogConfig(type="none"),
            # The engine removes it when it ends, also when this process is killed: then its stdin ends.
            auto_remove=True,
            network_mode=self._network or "default",
        )
        try:
            return _RunningContainer(client, container)
        except BaseException:
            with suppress(APIError):  # The engine may have removed it already: what failed is the better explanation.
                container.remove(force=True)
            raise


class _RunningContainer(RunningConnector):
    def __init__(self, client: docker.DockerClient, container: Container) -> None:
        self._client = client
        self._container = container
        api = client.api
        with ExitStack() as connections:
            attached = api.attach_socket(
                str(container.id), params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
            )
            # Over a Unix socket or TCP it is a file object around the socket, over TLS the socket itself.
            self._socket: socket.socket = getattr(attached, "_sock", attached)
            connections.callback(self._socket.close)
            connections.callback(attached.close)
            self._socket.settimeout(None)
            # The answer's head arrives when the engine has begun to wait, so an exit cannot come before.
            self._waiting = api.post(
                f"{api.base_url}/v{api.api_version}/containers/{container.id}/wait",
                params={"condition": "removed"},
                stream=True,
                timeout=None,
            )
            connections.callback(self._waiting.close)
            self._waiting.raise_for_status()
            container.start()
            self._connections = connections.pop_all()

        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        self._unread = False
        self._ended = threading.Event()
        self._exit: Exit | None = None
        self._threads = [
            threading.Thread(target=self._demultiplex, args=(stdout, stderr), name="container-output", daemon=True),
            threading.Thread(target=self._reap, name="container-exit", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close_stdin(self) -> None:
        with suppress(OSError):  # Closed from the other side: stdin has ended all the same.
            self._socket.shutdown(socket.SHUT_WR)

    def wait(self, seconds: float | None) -> Exit | None:
        self._ended.wait(seconds)
        return self._exit

    def terminate(self) -> None:
        self._leave_unread()
        self._signal("SIGTERM")

    def kill(self) -> None:
        self._leave_unread()
        self._signal("SIGKILL")

    def release(self) -> None:
        # Frees the demultiplexer, should it be waiting for somebody to read, or for more to come.
        self._leave_unread()
        os.close(self.stderr)
        with suppress(OSError):  # not connected any more
            self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._connections.close()
        self._client.close()

    def _leave_unread(self) -> None:
        """Lets what is still to come on stdout be thrown away: the engine ends no container whose output is stuck."""
        if not self._unread:
            self._unread = True
            os.close(self.stdout)

    def _signal(self, name: str) -> None:
        if self._ended.is_set():
            return
        try:
            self._container.kill(name)
        except (APIError, RequestException) as error:
            ended = isinstance(error, APIError) and error.status_code in (404, 409)  # it is, or it is gone already
            if not ended:
                raise ConnectorError("TM-RUN-009", f"{self._container.name}: {_words(error)}") from None

    def _reap(self) -> None:
        try:
            status = int(orjson.loads(self._waiting.content)["StatusCode"])
            # Of a process that a signal killed, the engine gives 128 and the signal's number, as a shell does.
            self._exit = Exit(status, status - 128 if 128 < status <= 128 + 64 else None)
        except (RequestException, orjson.JSONDecodeError, KeyError):
            self._exit = Exit(255)  # The engine went away: the connector is as good as dead.
        self._ended.set()

    def _demultiplex(self, stdout: int, stderr: int) -> None:
        pipes = {1: stdout, 2: stderr}
        try:
            while True:
                header = self._receive(FRAME_HEADER.size)
                if len(header) < FRAME_HEADER.size:
                    return
                stream, length = FRAME_HEADER.unpack(header)
                while length:
                    piece = self._socket.recv(min(length, RECEIVE_BYTES))
                    if not piece:
                        return
                    length -= len(piece)
                    with suppress(BrokenPipeError):  # nobody reads it any more, see _leave_unread
                        view = memoryview(piece)
                        while view:
                            view = view[os.write(pipes[stream], view) :]
        except OSError:
            return  # The engine went away: the reader sees the end of the pipes.
        finally:
            os.close(stdout)
            os.close(stderr)

    def _receive(self, size: int) -> bytes:
        """Exactly ``size`` bytes; fewer at the end of the stream."""
        received = b""
        while len(received) < size and (piece := self._socket.recv(size - len(received))):
            received += piece
        return received


def _remove_left(client: docker.DockerClient, session: str) -> None:
    """Removes what killed runtimes left: containers of this session, and those that were made and not started.

    The log of this session is ours now, so no process reads the former. The engine removes a container only when it
    ends, so the latter would stay.
    """
    left = client.containers.list(all=True, filters={"label": f"{SESSION_LABEL}={session}"}, ignore_removed=True)
    unstarted = client.containers.list(all=True, filters={"label": LABEL, "status": "created"}, ignore_removed=True)
    before = datetime.now(UTC) - timedelta(seconds=STARTED_SECONDS)
    left += [one for one in unstarted if datetime.fromisoformat(one.attrs["Created"][:19] + "Z") < before]
    for container in left:
        try:
            container.remove(force=True)
        except APIError as error:
            if error.status_code not in (404, 409):  # gone, or about to go
                raise


def _words(error: Exception) -> str:
    """What an error of the Docker SDK says, in a line."""
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split())
