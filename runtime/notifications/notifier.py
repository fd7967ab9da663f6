"""Watches the status of a capture, and tells receivers what changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from tidemark.protocol.capture_file.notify_entry import Happening, NotifyEntry, ReceiverEntry
from tidemark.protocol.errors import UsageError
from tidemark.runtime.notifications.changes import Changes, Notification, failure
from tidemark.runtime.notifications.delivery import LAST_SECONDS, CommandReceiver, Delivery, Receiver, UrlReceiver
from tidemark.runtime.preparation.secret_values import resolve
from tidemark.runtime.progress.failures import failure_of

LOOK_SECONDS = 1.0
"""How often the status is looked at."""


class Notifier:
    """A context manager that tells of what changes while it is entered, and of the error that ends it.

    Args:
        entry: Of the capture file.
        folder: The start of relative paths in it.
        capture: The capture's name.
        before: The last report of the run before; None without one.
        report: What the status is now.
        notice: Takes a warning where a notification was given up: level, message and fields.

    Raises:
        UsageError: ``TM-CFG-003`` a secret cannot be read; ``TM-CFG-012`` a URL is none of a web server.
    """

    def __init__(
        self,
        entry: NotifyEntry,
        folder: Path,
        capture: str,
        before: dict[str, Any] | None,
        report: Callable[[], dict[str, Any]],
        notice: Callable[..., None],
    ) -> None:
        self._capture = capture
        self._report = report
        self._notice = notice
        self._changes = Changes(before, entry.lag)
        self._receivers = [
            (_receiver(each, folder, f"notify.to.{number}"), each.on, f"notify.to.{number}")
            for number, each in enumerate(entry.to)
        ]
        self._deliveries: list[tuple[Delivery, list[Happening] | None]] = []
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="status-changes", daemon=True)

    def __enter__(self) -> Self:
        for receiver, on, place in self._receivers:
            self._deliveries.append((Delivery(receiver, self._given_up(place)), on))
        self._watching.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watching.join()
        self._look()
        if isinstance(error, Exception):
            self._tell(failure(failure_of(error)))
        for delivery, _ in self._deliveries:
            delivery.end(LAST_SECONDS)
        for delivery, _ in self._deliveries:
            delivery.close(LAST_SECONDS)

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        for notification in self._changes.since(self._report()):
            self._tell(notification)

    def _tell(self, notification: Notification) -> None:
        payload = orjson.dumps(notification.payload(self._capture))
        for delivery, on in self._deliveries:
            if on is None or notification.event in on:
                delivery.put(payload)

    def _given_up(self, place: str) -> Callable[[str], None]:
        def tell(reason: str) -> None:
            self._notice(
                "warning",
                f"a notification was given up: {place} does not take it: {reason}",
                remedy="Try the command or the URL by hand. The capture goes on, and `tidemark status` says all of it.",
            )

        return tell


def _receiver(entry: ReceiverEntry, folder: Path, place: str) -> Receiver:
    if entry.command is not None:
        return CommandReceiver(entry.command, folder)
    found, _ = resolve({"url": entry.url, "headers": entry.headers}, folder, place)
    url, headers = str(found["url"]), {name: str(value) for name, value in found["headers"].items()}
    try:
        well = urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:  # Half an IPv6 address.
        well = False
    if not well:
        raise UsageError("TM-CFG-012", f"{place}.url is no http:// or https:// address")
    return UrlReceiver(url, headers)
