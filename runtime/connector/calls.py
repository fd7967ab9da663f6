"""The four calls with one request and one response: each in a fresh process, its stdin closed, exit 0 expected."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Mapping
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_fixed

from tidemark.protocol.capture_file.model import ANSWER_SECONDS
from tidemark.protocol.codec import decode_response
from tidemark.protocol.envelope import MAX_LINE_BYTES
from tidemark.protocol.environment import REQUEST
from tidemark.protocol.errors import ConnectorError, ProtocolError
from tidemark.protocol.messages import (
    PROTOCOL_VERSION,
    Applied,
    Apply,
    CaptureSpec,
    Discover,
    Discovered,
    Message,
    Request,
    Spec,
    SpecResponse,
    Validate,
    Validated,
)
from tidemark.runtime.connector.conversation import Conversation
from tidemark.runtime.connector.interface import Connector, LogSink
from tidemark.runtime.connector.secrets import Redactor

READ_BYTES = 1024 * 1024

KILLED = "TM-RUN-003"
"""The error of a connector that was killed from outside."""

MOST_KILLS = 5
"""A call is given up after its connector was killed this often (for example for lack of memory)."""

AGAIN_SECONDS = 0.5

M = TypeVar("M", bound=Message)


class Caller:
    """Makes the calls of one capture.

    Args:
        connector: What to start for each call.
        environment: Variables for it.
        redactor: Blanks the secrets of its configuration from what it logs.
        log: Takes its log lines.
        seconds: How long a call may take.

    Every call raises ConnectorError: the connector's own error when it gave one; ``TM-RUN-002`` to ``TM-RUN-005`` and
    ``TM-RUN-011`` if it fails without an error, breaks the protocol or does not answer; a ``TM-PRO`` code for output
    that is not a message; and what ``Connector.start`` raises.
    """

    def __init__(
        self,
        connector: Connector,
        environment: Mapping[str, str],
        redactor: Redactor,
        log: LogSink,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._connector = connector
        self._environment = environment
        self._redactor = redactor
        self._log = log
        self._seconds = seconds

    def environment(self, kind: str) -> dict[str, str]:
        """Variables for the process of a call."""
        return {**self._environment, REQUEST: kind}

    def spec(self) -> SpecResponse:
        """What the connector is. Raises ``TM-RUN-006`` when it speaks another version of the protocol."""
        response = self._call(Spec(connector_type=self._connector.kind), SpecResponse)
        if response.protocol != PROTOCOL_VERSION:
            raise ConnectorError(
                "TM-RUN-006",
                f"{self._connector.name} uses version {response.protocol} of the protocol, not {PROTOCOL_VERSION}",
            )
        return response

    def discover(self, config: dict[str, object]) -> Discovered:
        """Which tables there are."""
        return self._call(Discover(connector_type=self._connector.kind, config=config), Discovered)

    def validate(self, capture: CaptureSpec) -> Validated:
        """Whether the bindings can be captured. Raises ``TM-RUN-005`` when the answer does not fit the bindings."""
        request = Validate(
            name=capture.name,
            connector_type=capture.connector_type,
            config=capture.config,
            bindings=capture.bindings,
        )
        response = self._call(request, Validated)
        paths = [tuple(binding.resource_path) for binding in response.bindings]
        if len(paths) != len(capture.bindings) or len(set(paths)) != len(paths):
            raise ConnectorError(
                "TM-RUN-005",
                f"{self._connector.name} validated {len(set(paths))} tables instead of {len(capture.bindings)}",
            )
        return response

    def apply(self, capture: CaptureSpec, version: str) -> Applied:
        """Creates what the connector needs at the source; can be repeated."""
        return self._call(Apply(capture=capture, version=version), Applied)

    def _call(self, request: Request, answer: type[M]) -> M:
        """Repeats the call if the connector is killed during it: all four can be repeated."""
        attempts = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, ConnectorError) and error.code == KILLED),
            stop=stop_after_attempt(MOST_KILLS),
            wait=wait_fixed(AGAIN_SECONDS),
            reraise=True,
        )
        answered: M = attempts(self._call_once, request, answer)
        return answered

    def _call_once(self, request: Request, answer: type[M]) -> M:
        running = self._connector.start(self.environment(request.kind))
        with Conversation(self._connector.name, running, self._redactor, self._log) as talk:
            talk.send(request)
            talk.finish()
            output = self._read(talk, request.kind)
            ended = talk.end()
            if not ended.clean:
                raise talk.failure(ended)
        return self._decode(output, request.kind, answer)

    def _read(self, talk: Conversation, what: str) -> bytes:
        """All of its stdout: a line, if it keeps to the protocol."""
        deadline = time.monotonic() + self._seconds
        pieces: list[bytes] = []
        size = 0
        with selectors.DefaultSelector() as selector:
            selector.register(talk.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise ConnectorError(
                        "TM-RUN-011", f"{self._connector.name} did not answer {what} within {self._seconds:g} s"
                    )
                piece = os.read(talk.stdout, READ_BYTES)
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
                size += len(piece)
                if size > MAX_LINE_BYTES:
                    raise ConnectorError(
                        "TM-PRO-005",
                        f"{self._connector.name}: its answer to {what} is longer than {MAX_LINE_BYTES} bytes",
                    )

    def _decode(self, output: bytes, what: str, answer: type[M]) -> M:
        name = self._connector.name
        lines = [line for line in output.split(b"\n") if line.strip()]
        if not lines:
            raise ConnectorError("TM-RUN-004", f"{name} ended without an answer to {what}")
        if len(lines) > 1:
            raise ConnectorError("TM-RUN-005", f"{name} answered {what} with {len(lines)} lines instead of one")
        if not output.endswith(b"\n"):
            raise ConnectorError("TM-PRO-006", f"{name} ended in the middle of its answer to {what}")
        try:
            response = decode_response(lines[0])
        except ProtocolError as error:
            raise ConnectorError(error.code, f"{name}, answering {what}: {error.message}") from None
        if not isinstance(response, answer):
            raise ConnectorError("TM-RUN-005", f"{name} answered {what} with {response.kind}")
        return response
