"""The ``metrics`` entry of a capture file: where a running process says how it is."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel

from tidemark.protocol.capture_file.values import STRICT

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[^\[\]:\s/]*)):(?P<port>\d{1,5})")


def _address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("an address is HOST:PORT, [IPv6]:PORT, or :PORT for all addresses of the machine")
    return text


class MetricsEntry(BaseModel):
    """Where metrics are served.

    Attributes:
        listen: ``HOST:PORT``; without a host, all addresses of the machine.
        hosts: Names by which requests may ask, besides addresses, ``localhost`` and the host of ``listen``.
    """

    model_config = STRICT

    listen: Annotated[str, AfterValidator(_address)]
    hosts: list[str] = []

    @property
    def host(self) -> str:
        """The address or name; empty for all addresses."""
        match = _ADDRESS.fullmatch(self.listen)
        assert match is not None, "it was checked"
        return match["six"] or match["four"]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as a socket takes them."""
        return self.host, int(self.listen.rpartition(":")[2])
