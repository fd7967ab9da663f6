"""A connector that plays a script: a real process over real pipes, with whatever behaviour a test wants.

``python scripted_connector.py FOLDER``: the folder holds ``script.json`` and takes ``requests.jsonl``, every request
that came, in order, each with the process's id, and ``environment.json``, the variables of whoever got the last. The
script:

``tables``
    What is discovered: ``{"name": "public/t", "key": ["/id"], "schema": {…}, "disable": false}``.
``spec`` ``discover`` ``validate`` ``apply``
    Steps to play instead of answering that request properly.
``sessions``
    Steps to play after ``open``: the first list in the first session, the last one in all that follow.

A step is an object with one key:

``line``       writes a line as it is · ``text`` writes text without a newline · ``message`` writes a message as JSON
``bytes``      writes bytes, which are given in base64
``rows``       writes captured lines: ``{"binding": 0, "first": 1, "count": 10, "size": 20}``
``checkpoint`` writes a checkpoint with this merge patch
``stderr``     writes a line to stderr · ``exit`` exits · ``signal`` kills itself
``await``      waits until so many checkpoints are acknowledged · ``await_eof`` waits for the end of stdin
``await_commands`` waits until so many ``control`` requests have come, and then writes them into its state
``sleep``      forever, taking no notice of stdin; with ``"stubborn"`` SIGTERM only makes a file ``terminated``
``stream``     rows ``{"rows": 1000, "each": 10}`` from the state's cursor on, a checkpoint after ``each``, and the end
``child``      starts a process of its own that holds the pipes open, and writes its id to ``child.pid``

It imports little: a command starts it five times, and its imports are most of what that costs.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = sys.argv[1]


def contents(name: str) -> str:
    with open(f"{FOLDER}/{name}") as file:  # noqa: PTH123
        return file.read()


def write_file(name: str, text: str = "", mode: str = "w") -> None:
    with open(f"{FOLDER}/{name}", mode) as file:  # noqa: PTH123
        file.write(text)


SCRIPT = json.loads(contents("script.json"))
OUT = sys.stdout.buffer
ROW_SCHEMA = {
    "type": "object",
    "properties": {"_meta": {"type": "object"}, "id": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}


class Stdin(threading.Thread):
    """Reads requests, writes them down, counts acknowledgements."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.changed = threading.Condition()
        self.acknowledged = 0
        self.commands: list[int] = []
        self.ended = False

    def run(self) -> None:
        while (request := read()) is not None:
            with self.changed:
                if "control" in request:
                    self.commands.append(request["control"]["sequence"])
                else:
                    self.acknowledged += request["acknowledge"]["checkpoints"]
                self.changed.notify()
        with self.changed:
            self.ended = True
            self.changed.notify()


BEGUN = bytearray()


def read() -> dict[str, Any] | None:
    # Not through sys.stdin: Python aborts when it ends while a thread reads from a buffered stream.
    while b"\n" not in BEGUN:
        piece = os.read(0, 65536)
        if not piece:
            return None
        BEGUN.extend(piece)
    line, _, rest = bytes(BEGUN).partition(b"\n")
    BEGUN[:] = rest
    request: dict[str, Any] = json.loads(line)
    write_file("requests.jsonl", json.dumps({"pid": os.getpid(), **request}) + "\n", "a")
    return request


def write(message: dict[str, Any]) -> None:
    OUT.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    OUT.flush()


def captured(binding: int, number: int, size: int = 4) -> bytes:
    meta = b'{"op":"c","source":{"loc":[%d,0,0]}}' % number
    return b'{"captured":{"binding":%d,"doc":{"_meta":%b,"id":%d,"text":"%b"}}}\n' % (
        binding,
        meta,
        number,
        b"x" * size,
    )


def checkpoint(patch: Any) -> None:
    write({"checkpoint": {"state": {"updated": patch, "mergePatch": True}}})


def play(steps: list[dict[str, Any]], stdin: Stdin | None, state: dict[str, Any]) -> None:
    for step in steps:
        ((kind, value),) = step.items()
        match kind:
            case "line":
                OUT.write(value.encode() + b"\n")
                OUT.flush()
            case "text":
                OUT.write(value.encode())
                OUT.flush()
            case "bytes":
                OUT.write(base64.b64decode(value))
                OUT.flush()
            case "message":
                write(value)
            case "rows":
                numbers = range(value["first"], value["first"] + value["count"])
                OUT.writelines(captured(value.get("binding", 0), n, value.get("size", 4)) for n in numbers)
                OUT.flush()
            case "checkpoint":
                checkpoint(value)
            case "stderr":
                sys.stderr.write(value + "\n")
                sys.stderr.flush()
            case "exit":
                sys.exit(value)
            case "signal":
                os.kill(os.getpid(), value)
            case "await":
                assert stdin is not None
                with stdin.changed:
                    stdin.changed.wait_for(lambda: stdin.acknowledged >= value)  # noqa: B023
            case "await_commands":
                assert stdin is not None
                with stdin.changed:
                    stdin.changed.wait_for(lambda: len(stdin.commands) >= value)  # noqa: B023
                checkpoint({"control": stdin.commands[-1]})
            case "await_eof":
                assert stdin is not None
                with stdin.changed:
                    stdin.changed.wait_for(lambda: stdin.ended)
            case "sleep":
                if value == "stubborn":
                    signal.signal(signal.SIGTERM, lambda *_: write_file("terminated"))
                write_file("asleep")
                while True:
                    signal.pause()
            case "child":
                child = os.posix_spawnp("sleep", ["sleep", "3600"], os.environ)
                write_file("child.pid", str(child))
            case "stream":
                stream(value["rows"], value["each"], state)
            case _:
                raise ValueError(kind)


def stream(rows: int, each: int, state: dict[str, Any]) -> None:
    for first in range(state.get("cursor", 0) + 1, rows + 1, each):
        last = min(first + each - 1, rows)
        OUT.writelines(captured(0, number) for number in range(first, last + 1))
        checkpoint({"cursor": last, "seen": {str(last % 3): last}})


def answer(kind: str, request: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case "spec":
            return {
                "spec": {
                    "protocol": 3032023,
                    "configSchema": {"type": "object"},
                    "resourceConfigSchema": {"type": "object", "properties": SCRIPT.get("options", {})},
                    "documentationUrl": "https://example.test",
                    "resourcePathPointers": ["/schema", "/table"],
                }
            }
        case "discover":
            return {"discovered": {"bindings": list(map(binding, SCRIPT["tables"]))}}
        case "validate":
            resources = [part["resourceConfig"] for part in request["bindings"]]
            return {"validated": {"bindings": [{"resourcePath": [r["schema"], r["table"]]} for r in resources]}}
        case _:
            return {"applied": {}}


def binding(table: dict[str, Any]) -> dict[str, Any]:
    schema, _, name = table["name"].partition("/")
    return {
        "recommendedName": table["name"],
        "resourceConfig": {"schema": schema, "table": name},
        "documentSchema": table.get("schema", ROW_SCHEMA),
        "key": table.get("key", ["/id"]),
        "disable": table.get("disable", False),
    }


def main() -> None:
    request = read()
    if request is None:
        return
    write_file("environment.json", json.dumps(dict(os.environ)))
    ((kind, body),) = request.items()
    if kind == "open":
        opens = [line for line in contents("requests.jsonl").splitlines() if '"open"' in line]
        stdin = Stdin()
        stdin.start()
        sessions = SCRIPT["sessions"]
        play(sessions[min(len(opens), len(sessions)) - 1], stdin, body.get("state", {}))
    elif kind in SCRIPT:
        play(SCRIPT[kind], None, {})
    else:
        write(answer(kind, body))


main()
