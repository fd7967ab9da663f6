"""Connectors in containers of a real engine."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import signal
import tarfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException, ImageNotFound, NotFound

from tests.runtime.capture_folder import CaptureFolder
from tests.runtime.scripted_sessions import table
from tidemark.protocol.capture_file import LimitsEntry
from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.messages import CaptureSpec
from tidemark.runtime.connector import container as container_module
from tidemark.runtime.connector.calls import Caller
from tidemark.runtime.connector.container import LABEL, SESSION_LABEL, ContainerConnector
from tidemark.runtime.connector.conversation import Conversation
from tidemark.runtime.connector.interface import GRACE_SECONDS, Exit, RunningConnector
from tidemark.runtime.connector.secrets import Redactor
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import DOCKER_ENGINE, lacks

pytestmark = pytest.mark.docker

BASE = "debian:trixie-slim"
SCRIPT = Path(__file__).with_name("shell_connector.sh")


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    if (client := answering()) is None:
        pytest.skip(DOCKER_ENGINE)
    try:
        client.images.get(BASE)
    except ImageNotFound:
        client.close()
        pytest.skip(lacks(f"the Docker engine has no image {BASE}", f"docker pull {BASE}"))
    yield client
    client.close()


def answering() -> docker.DockerClient | None:
    """The engine's client, None without an engine."""
    with warnings.catch_warnings():
        # The Docker SDK leaves its socket open when it cannot connect. Any later test would be the one that is told.
        warnings.simplefilter("ignore", ResourceWarning)
        with suppress(DockerException):
            return docker.from_env()
        gc.collect()
    return None


@pytest.fixture(scope="module")
def image(engine: docker.DockerClient) -> Iterator[str]:
    """An image whose connector is a shell script."""
    with build(engine, "tidemark-test-shell", "") as tag:
        yield tag


@contextmanager
def build(engine: docker.DockerClient, name: str, more: str) -> Iterator[str]:
    """An image of the shell connector, with more lines in its Dockerfile; removed afterwards."""
    dockerfile = f'FROM {BASE}\nCOPY connector /connector\n{more}\nENTRYPOINT ["/connector"]\n'
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for path, data in (("Dockerfile", dockerfile.encode()), ("connector", SCRIPT.read_bytes())):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    tag = f"{name}:{os.getpid()}"
    engine.images.build(fileobj=io.BytesIO(context.getvalue()), custom_context=True, tag=tag, rm=True)
    try:
        yield tag
    finally:
        engine.images.remove(tag, force=True)


@pytest.fixture(autouse=True)
def nothing_is_left(engine: docker.DockerClient, image: str) -> Iterator[None]:
    """Fails a test that leaves a container of the connector behind."""
    yield
    wait_until(lambda: not ours(engine, image), 20, "every container removed")


def ours(engine: docker.DockerClient, image: str) -> list[str]:
    return [
        str(one.id)
        for one in engine.containers.list(all=True, filters={"label": f"{LABEL}={image}"}, ignore_removed=True)
    ]


class Reading(threading.Thread):
    """Reads a descriptor to its end."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self.digest = hashlib.sha256()
        self.size = 0
        self.beginning = b""
        self.start()

    def run(self) -> None:
        while piece := os.read(self._descriptor, 65536):
            self.digest.update(piece)
            self.size += len(piece)
            if len(self.beginning) < 100_000:
                self.beginning += piece

    def text(self) -> str:
        self.join()
        return self.beginning.decode()


def opened(image: str, mode: str, **more: str) -> RunningConnector:
    running = ContainerConnector(image).start({"MODE": mode, **more})
    running.write(b'{"open":{}}\n')
    return running


def ended(running: RunningConnector, grace: float = GRACE_SECONDS) -> Exit:
    """Stops it and gives it back."""
    running.close_stdin()
    try:
        return running.stop(grace)
    finally:
        running.release()


def test_not_a_byte_is_lost(image: str) -> None:
    expected = hashlib.sha256()
    size = 0
    for number in range(1, 500_001):
        line = (
            b'{"captured":{"binding":0,"doc":{"_meta":{"op":"c"},"id":%d,"text":"abcdefghijklmnopqrstuvwxyz012345"}}}\n'
        )
        expected.update(line % number)
        size += len(line % number)
    running = opened(image, "flood")
    out, err = Reading(running.stdout), Reading(running.stderr)
    assert err.text() == ""
    out.join()
    assert running.wait(20) == Exit(0)
    assert (out.size, out.digest.hexdigest()) == (size, expected.hexdigest())
    ended(running)


def test_stdout_and_stderr_come_apart(image: str) -> None:
    running = opened(image, "mixed")
    out, err = Reading(running.stdout), Reading(running.stderr)
    assert out.text().split() == [word for number in range(1, 2001) for word in ("out", str(number))]
    assert err.text().split() == [word for number in range(1, 2001) for word in ("err", str(number))]
    ended(running)


def test_the_container_has_no_privileges(image: str) -> None:
    running = opened(image, "whoami", TIDEMARK_STOP_WHEN_CAUGHT_UP="1", FLOW_RUNTIME_CODEC="json")
    out = Reading(running.stdout)
    assert out.text().splitlines() == ["65534", "read-only", "temporary", "1 json"]
    ended(running)


def test_a_user_of_the_image_is_kept_unless_it_is_root(engine: docker.DockerClient) -> None:
    for user, uid in (("4321", "4321"), ("root", "65534")):
        with build(engine, f"tidemark-test-{user}", f"USER {user}") as tag:
            running = opened(tag, "whoami")
            assert Reading(running.stdout).text().splitlines()[0] == uid
            ended(running)


def test_requests_go_in_and_the_end_of_stdin_too(image: str) -> None:
    running = opened(image, "echo")
    out = Reading(running.stdout)
    big = b"x" * 5_000_000 + b"\n"
    running.write(big)
    running.close_stdin()
    out.join()
    assert (out.size, out.digest.digest()) == (len(big), hashlib.sha256(big).digest())
    assert running.wait(20) == Exit(0)
    ended(running)


def test_a_killed_container_looks_like_a_crash(engine: docker.DockerClient, image: str) -> None:
    running = opened(image, "wait")
    engine.containers.get(ours(engine, image)[0]).kill()
    assert Reading(running.stdout).text() == ""
    assert running.wait(20) == Exit(137, signal.SIGKILL)
    ended(running)


def test_it_is_removed_when_nobody_reads_what_it_says(image: str) -> None:
    running = opened(image, "flood")
    ended(running)


def test_one_that_ignores_sigterm_is_killed(image: str) -> None:
    running = opened(image, "stubborn")
    assert ended(running, grace=0.5).signal == signal.SIGKILL


def test_what_a_killed_runtime_left_is_removed_by_the_next_session(engine: docker.DockerClient, image: str) -> None:
    connector = ContainerConnector(image)
    orphan = connector.start({"MODE": "stubborn"}, session="/logs/shop.log")
    orphan.write(b'{"open":{}}\n')
    other = connector.start({"MODE": "wait"}, session="/logs/other.log")
    running = connector.start({"MODE": "wait"}, session="/logs/shop.log")
    assert orphan.wait(20) == Exit(137, signal.SIGKILL)
    assert len(ours(engine, image)) == 2
    for one in (orphan, other, running):
        ended(one)


def test_a_container_that_was_made_and_never_started_is_removed(
    engine: docker.DockerClient, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next session of any capture, and not while its own runtime may be about to start it."""
    made = engine.containers.create(image, labels={LABEL: image})
    connector = ContainerConnector(image)
    first = connector.start({"MODE": "wait"}, session="/logs/shop.log")
    assert str(made.id) in ours(engine, image)
    monkeypatch.setattr(container_module, "STARTED_SECONDS", -2.0)  # The engine's clock is read in whole seconds.
    second = connector.start({"MODE": "wait"}, session="/logs/other.log")
    assert str(made.id) not in ours(engine, image)
    for one in (first, second):
        ended(one)


def test_the_calls(image: str) -> None:
    logged: list[LogLine] = []
    caller = Caller(ContainerConnector(image), {}, Redactor(()), logged.append)
    assert caller.spec().resource_path_pointers == ["/schema", "/table"]
    assert [one.recommended_name for one in caller.discover({}).bindings] == ["public/t"]
    capture = CaptureSpec(name="shop", bindings=[table().binding])
    assert [one.resource_path for one in caller.validate(capture).bindings] == [["public", "t"]]
    assert caller.apply(capture, "1").action_description == ""


def test_a_conversation_that_is_broken_off_removes_it(image: str) -> None:
    running = ContainerConnector(image).start({"MODE": "flood"})
    with pytest.raises(KeyboardInterrupt), Conversation("shell", running, Redactor(()), lambda _: None):
        running.write(b'{"open":{}}\n')
        raise KeyboardInterrupt


def test_an_image_that_is_not_there() -> None:
    with pytest.raises(ConnectorError) as caught:
        ContainerConnector("localhost:1/tidemark/none").start({})
    assert caught.value.code == "TM-RUN-008"
    assert "localhost:1/tidemark/none" in caught.value.message
    with pytest.raises(ConnectorError) as caught:
        ContainerConnector("Not A/Name::").start({})
    assert caught.value.code == "TM-RUN-008"


def test_a_network_that_is_not_there_is_named(engine: docker.DockerClient) -> None:
    with build(engine, "tidemark-test-network", "") as tag:
        with pytest.raises(ConnectorError, match="tidemark-no-such-network") as caught:
            ContainerConnector(tag, "tidemark-no-such-network").start({})
        assert caught.value.code == "TM-RUN-009"
        assert ours(engine, tag) == []


@pytest.mark.parametrize("label", ["FLOW_RUNTIME_PROTOCOL=materialize", "FLOW_RUNTIME_CODEC=proto"])
def test_an_image_for_something_else(engine: docker.DockerClient, label: str) -> None:
    with build(engine, "tidemark-test-label", f"LABEL {label}") as tag, pytest.raises(ConnectorError) as caught:
        ContainerConnector(tag).start({})
    assert caught.value.code == "TM-RUN-008"
    assert f"has the label {label}" in caught.value.message


def test_a_container_has_limits_and_a_telling_name(engine: docker.DockerClient, image: str) -> None:
    limits = LimitsEntry(memory=200_000_000, cpus=0.5, processes=77)
    running = ContainerConnector(image, capture="my shop", limits=limits).start({"MODE": "sleep"}, session="s")
    try:
        [container] = engine.containers.list(filters={"label": f"{LABEL}={image}"})
        assert str(container.name).startswith("tidemark-my-shop-session-")
        host = container.attrs["HostConfig"]
        assert (host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"]) == (
            200_000_000,
            200_000_000,
            500_000_000,
            77,
        )
    finally:
        ended(running)


def test_an_image_without_a_program(engine: docker.DockerClient) -> None:
    with build(engine, "tidemark-test-empty", "RUN rm /connector") as tag:
        with pytest.raises(ConnectorError) as caught:
            ContainerConnector(tag).start({})
        assert caught.value.code == "TM-RUN-009"
        assert ours(engine, tag) == []


# The Docker SDK leaves its socket open when it cannot connect.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(ConnectorError) as caught:
        ContainerConnector(BASE).start({})
    assert caught.value.code == "TM-RUN-007"
    del caught  # it holds on to the socket
    gc.collect()


def test_a_capture_in_a_container_killed_on_the_way(
    engine: docker.DockerClient, image: str, folder: CaptureFolder
) -> None:
    folder.write_file(connector={"image": image, "network": "host", "config": {"mode": "stream"}})
    with folder.start("capture", "capture.yaml", "--until-caught-up") as runtime:
        wait_until(lambda: runtime.poll() is not None or folder.is_begun, 60, "a first commit")
        for one in ours(engine, image):
            try:
                engine.containers.get(one).kill()
            except NotFound:
                break  # it was quicker
        assert runtime.wait(60) == 0, folder.stderr
    assert folder.ids() == list(range(1, 300_001))


def test_a_killed_runtime_leaves_no_container(engine: docker.DockerClient, image: str, folder: CaptureFolder) -> None:
    folder.write_file(connector={"image": image, "config": {"mode": "wait"}})
    with folder.start("capture", "capture.yaml") as runtime:
        # Until it is opened, the runtime may be making one for a question, which it could not start any more.
        wait_until(lambda: _opened(engine, image), 60, "a container that was opened")
        runtime.kill()


def _opened(engine: docker.DockerClient, image: str) -> bool:
    """Whether the session's container has got its request: the shell runs ``cat`` since."""
    sessions = engine.containers.list(filters={"label": [f"{LABEL}={image}", SESSION_LABEL]}, ignore_removed=True)
    return any("cat" in command for one in sessions for process in one.top()["Processes"] for command in process)
