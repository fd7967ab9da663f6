"""A TCP proxy whose connections are slow, each by itself, as those to a database far away are.

What comes from the server is passed on at a bounded rate, and in both directions everything comes a while later than it
was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PIECE_BYTES = 16 * 1024
PIECES_UNDER_WAY = 64
"""What has been taken from one side and not yet passed on: as much as a network holds, not as much as there is."""


@contextmanager
def slow_network(host: str, port: int, *, megabytes: float, milliseconds: float) -> Iterator[int]:
    """A proxy in a process of its own; gives its port. ``megabytes`` a second, ``milliseconds`` each way."""
    command = [sys.executable, "-c", "from benchmarks.source.slow_network import serve; serve()"]
    arguments = [host, str(port), str(megabytes), str(milliseconds)]
    with subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        yield int(process.stdout.readline())
        process.stdin.close()


class _Proxy:
    def __init__(self, host: str, port: int, rate: float, delay: float) -> None:
        self._host = host
        self._port = port
        self._rate = rate
        self._delay = delay

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.close()

    async def _connected(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        try:
            server_in, server_out = await asyncio.open_connection(self._host, self._port)
        except OSError:
            client_out.close()
            return
        await asyncio.gather(
            self._pass_on(client_in, server_out, None), self._pass_on(server_in, client_out, self._rate)
        )

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, rate: float | None) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PIECES_UNDER_WAY)
        await asyncio.gather(self._take(source, under_way, rate), self._give(under_way, target))

    async def _take(
        self, source: asyncio.StreamReader, under_way: asyncio.Queue[tuple[float, bytes]], rate: float | None
    ) -> None:
        clock = asyncio.get_running_loop().time
        free_at = clock()
        while True:
            data = b""
            with contextlib.suppress(OSError):  # Cut off: that is its end, too.
                data = await source.read(PIECE_BYTES)
            if rate is not None:
                free_at = max(free_at, clock()) + len(data) / rate
                await asyncio.sleep(max(0.0, free_at - clock()))
            await under_way.put((clock() + self._delay, data))
            if not data:
                return

    async def _give(self, under_way: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(max(0.0, due - clock()))
            with contextlib.suppress(OSError):  # Nobody is there to take it: the other direction ends as well.
                if not data:
                    target.close()
                    return
                target.write(data)
                await target.drain()


def serve() -> None:
    """The proxy's process: prints the port it listens on, on 127.0.0.1, and ends with its stdin."""
    host, port, megabytes, milliseconds = sys.argv[1:]
    asyncio.run(_Proxy(host, int(port), float(megabytes) * 1e6, float(milliseconds) / 1e3).serve())
