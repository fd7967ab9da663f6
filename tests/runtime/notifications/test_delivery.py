"""What receivers take, what is tried again, and what is given up."""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.notifications.receiving import Posted, receiving
from tidemark.runtime.notifications.delivery import WAITING, CommandReceiver, Delivery, Receiver, UrlReceiver
from tidemark.testing.deadline import wait_until

ONE = b'{"event":"backfill_done"}'


@pytest.fixture
def posted() -> Iterator[Posted]:
    with receiving() as server:
        yield server


def test_it_is_posted(posted: Posted) -> None:
    given_up: list[str] = []
    delivery = Delivery(UrlReceiver(posted.url, {"Authorization": "secret"}), given_up.append)
    delivery.put(ONE)
    delivery.close()
    assert (posted.events, given_up) == (["backfill_done"], [])
    assert posted.headers[0]["Authorization"] == "secret"
    assert posted.headers[0]["Content-Type"] == "application/json"


def test_what_is_not_taken_is_tried_again_in_its_order(posted: Posted) -> None:
    posted.answers = [503, 429]
    given_up: list[str] = []
    delivery = Delivery(UrlReceiver(posted.url, {}), given_up.append)
    for number in range(3):
        delivery.put(json.dumps({"event": number}).encode())
    wait_until(lambda: len(posted.bodies) == 3, 60, "all are taken")
    delivery.close()
    assert (posted.events, given_up) == ([0, 1, 2], [])


@pytest.mark.parametrize("answer", [404, 302])
def test_what_is_refused_is_given_up_and_the_next_comes(posted: Posted, answer: int) -> None:
    posted.answers = [answer]
    given_up: list[str] = []
    delivery = Delivery(UrlReceiver(posted.url, {}), given_up.append)
    delivery.put(b'{"event":"first"}')
    delivery.put(ONE)
    delivery.close()
    assert (posted.events, given_up) == (["backfill_done"], [f"it answered {answer}"])


def test_nobody_listens(posted: Posted) -> None:
    port = posted.url.rpartition(":")[2].partition("/")[0]
    given_up: list[str] = []
    delivery = Delivery(UrlReceiver(posted.url.replace(port, "1") + "?key=secret", {}), given_up.append, seconds=0.2)
    delivery.put(ONE)
    wait_until(lambda: bool(given_up), 60, "it is given up")
    delivery.close()
    assert given_up == ["it cannot be reached: Connection refused"]


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 abc\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000]
)
def test_what_answers_is_no_web_server(answer: bytes) -> None:
    """The others are told all the same."""

    class Greeting(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(answer)
            self.connection.shutdown(socket.SHUT_WR)
            self.rfile.read()

    given_up: list[str] = []
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        delivery = Delivery(UrlReceiver(f"http://127.0.0.1:{server.server_address[1]}", {}), given_up.append, 0.2)
        delivery.put(ONE)
        wait_until(lambda: len(given_up) == 1, 60, "it is given up")
        delivery.put(ONE)
        wait_until(lambda: len(given_up) == 2, 60, "so is the next")
        delivery.close()
        server.shutdown()
    assert all(why.startswith("the connection broke: ") for why in given_up)


def test_the_end_of_a_capture_waits_for_a_while(posted: Posted) -> None:
    posted.answers = [503, 503]
    given_up: list[str] = []
    delivery = Delivery(UrlReceiver(posted.url, {}), given_up.append)
    delivery.put(ONE)
    delivery.close(30)
    assert (posted.events, given_up) == (["backfill_done"], [])
    posted.answers = [503] * 1000
    delivery = Delivery(UrlReceiver(posted.url, {}), given_up.append)
    delivery.put(ONE)
    delivery.close(0.1)
    assert given_up and posted.events == ["backfill_done"]


def test_a_command_reads_it(tmp_path: Path) -> None:
    """It is started where the capture file is, and tried again until it exits with 0."""
    (tmp_path / "take.py").write_text(
        "import pathlib, sys\n"
        "tries = pathlib.Path('tries')\n"
        "count = len(tries.read_text()) if tries.exists() else 0\n"
        "tries.write_text('x' * (count + 1))\n"
        "sys.exit(3) if not count else pathlib.Path('taken').write_bytes(sys.stdin.buffer.read())\n"
    )
    given_up: list[str] = []
    delivery = Delivery(CommandReceiver([sys.executable, "take.py"], tmp_path), given_up.append)
    delivery.put(ONE)
    wait_until((tmp_path / "taken").exists, 60, "it is taken")
    delivery.close()
    assert ((tmp_path / "taken").read_bytes(), given_up) == (ONE, [])
    absent = Delivery(CommandReceiver(["./no-such-program"], tmp_path), given_up.append)
    absent.put(ONE)
    absent.close()
    assert given_up == ["it cannot be executed: No such file or directory"]


def test_a_receiver_that_hangs_holds_nobody_up() -> None:
    free = threading.Event()
    taken: list[bytes] = []

    class Hanging(Receiver):
        def take(self, payload: bytes) -> None:
            free.wait()
            taken.append(payload)

    given_up: list[Any] = []
    delivery = Delivery(Hanging(), given_up.append)
    for number in range(WAITING + 3):
        delivery.put(b"%d" % number)
    assert set(given_up) == {f"{WAITING} others wait"}
    delivery.close(0.1)
    assert given_up[-1] == "it took more than 0.1 s at the end of the capture"
    free.set()
    wait_until(lambda: len(taken) >= WAITING, 60, "the rest is taken")
    assert taken[-1] == b"%d" % (WAITING + 2)
