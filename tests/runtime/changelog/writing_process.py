"""A process that writes a log until it is killed: ``python -m tests.runtime.changelog.writing_process LOG SEED``.

It says ``start``, ``open EPOCH``, ``commit N OFFSET`` after each commit, and ``error CODE`` before it exits because of
one. It resumes from the
state: events carry consecutive numbers, so whatever is lost, repeated or torn apart shows.
"""

from __future__ import annotations

import random
import sys

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, closed, document, order
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.store.opening import opened
from tidemark.runtime.changelog.writer import LogWriter

LINES = "public/lines"


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def write(place: str, seed: int) -> None:
    """Every order has two lines, in the same commit."""
    rng = random.Random(seed)
    say("start")
    log = LogWriter.open(opened(place), "shop")
    orders, lines = log.bind(ORDERS, ORDER_SCHEMA, ["id"]), log.bind(LINES, closed(id={"type": "integer"}))
    say("open", log.epoch)
    next_id = log.state.get("next", 0)
    batch = log.begin()
    while True:
        for _ in range(rng.choice([1, 3, 200, 3000])):
            batch.add(orders, [order(next_id, note="x" * rng.randrange(40))])
            batch.add(lines, [document(id=next_id), document(id=next_id)])
            next_id += 1
        full, batch = batch, log.begin()
        commit = log.commit(full, {"next": next_id}, 1)
        say("commit", commit.number, commit.next_offset)


if __name__ == "__main__":
    try:
        write(sys.argv[1], int(sys.argv[2]))
    except TidemarkError as error:
        say("error", error.code)
        sys.exit(error.exit_status)
