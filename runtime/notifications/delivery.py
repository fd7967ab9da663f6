"""Hands notifications to one receiver, in their order, and tries again what it does not take."""

from __future__ import annotations

import http.client
import math
import queue
import subprocess
import threading
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tenacity import RetryCallState, RetryError, Retrying, retry_if_exception_type, wait_exponential

WAITING = 1000
"""Notifications that may wait for a receiver. Beyond it the oldest is given up."""

TRY_SECONDS = 600.0
"""How long one notification is tried."""

LAST_SECONDS = 10.0
"""How long the end of a capture waits for what is still to be told."""

COMMAND_SECONDS = 30.0
REQUEST_SECONDS = 10.0


class NotTaken(Exception):
    """A receiver did not take a notification, and may take it later."""


class Refused(Exception):
    """A receiver does not take this notification, whenever it comes."""


class Receiver(ABC):
    """Takes a notification, as JSON."""

    @abstractmethod
    def take(self, payload: bytes) -> None:
        """Raises NotTaken or Refused, with a reason that shows no secret."""


class CommandReceiver(Receiver):
    """A program that reads it on stdin, and exits with 0."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command = list(command)
        self._folder = folder

    def take(self, payload: bytes) -> None:
        try:
            ended = subprocess.run(
                self._command,
                input=payload,
                cwd=self._folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotTaken(f"it did not end within {COMMAND_SECONDS:g} s") from None
        except OSError as error:
            raise Refused(f"it cannot be executed: {error.strerror}") from None
        if ended.returncode:
            raise NotTaken(f"it ended with {ended.returncode}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirection is an answer: to follow it would ask another address, with the headers and without the body."""

    def redirect_request(self, *_: object) -> None:
        return None


class UrlReceiver(Receiver):
    """A web server to which it is posted, and that answers with 2xx."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json", "User-Agent": "tidemark", **headers}

    def take(self, payload: bytes) -> None:
        request = urllib.request.Request(self._url, payload, self._headers, method="POST")
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=REQUEST_SECONDS):
                return
        except urllib.error.HTTPError as error:
            with error:
                passing = error.code in (408, 425, 429) or error.code >= 500
            raise (NotTaken if passing else Refused)(f"it answered {error.code}") from None
        except urllib.error.URLError as error:
            reason = getattr(error.reason, "strerror", None) or type(error.reason).__name__
            raise NotTaken(f"it cannot be reached: {reason}") from None
        # The connection breaks; what answers is no web server.
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise NotTaken(f"the connection broke: {type(error).__name__}") from None


class Delivery:
    """A thread that hands notifications to a receiver. ``close`` ends it.

    Args:
        receiver: Takes them.
        failed: Is told why a notification was given up. Called from any thread.
        seconds: How long one is tried.
    """

    def __init__(self, receiver: Receiver, failed: Callable[[str], None], seconds: float = TRY_SECONDS) -> None:
        self._receiver = receiver
        self._failed = failed
        self._seconds = seconds
        self._waiting: queue.Queue[bytes | None] = queue.Queue()
        self._ending = threading.Event()
        self._deadline = math.inf
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
        self._thread.start()

    def put(self, payload: bytes) -> None:
        """Hands it over; never waits."""
        if self._waiting.qsize() >= WAITING:
            self._failed(f"{WAITING} others wait")
            self._waiting.get_nowait()
        self._waiting.put(payload)

    def end(self, seconds: float) -> None:
        """Lets it deliver what it has, for so many seconds at most. Does not wait for that."""
        self._deadline = time.monotonic() + seconds
        self._waiting.put(None)
        self._ending.set()

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Waits until all is delivered, so many seconds at most, counted from ``end`` if that was called before."""
        if not self._ending.is_set():
            self.end(seconds)
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if self._thread.is_alive():
            self._failed(f"it took more than {seconds:g} s at the end of the capture")

    def _run(self) -> None:
        while (payload := self._waiting.get()) is not None:
            attempts = Retrying(
                retry=retry_if_exception_type(NotTaken),
                wait=wait_exponential(multiplier=0.5, max=60),
                stop=self._is_over,
                sleep=self._sleep,
            )
            try:
                attempts(self._receiver.take, payload)
            except RetryError as error:
                self._failed(str(error.last_attempt.exception()))
            except Refused as error:
                self._failed(str(error))

    def _is_over(self, attempt: RetryCallState) -> bool:
        return (attempt.seconds_since_start or 0.0) >= self._seconds or time.monotonic() >= self._deadline

    def _sleep(self, seconds: float) -> None:
        """Sleeps while the capture runs; at its end, only up to the deadline."""
        if not self._ending.wait(seconds):
            return
        time.sleep(max(0.0, min(seconds, 0.5, self._deadline - time.monotonic())))
