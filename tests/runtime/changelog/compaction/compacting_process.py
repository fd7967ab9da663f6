"""A process that writes a log, compacts and trims it until it is killed: ``python -m … LOG SEED``.

It says ``open`` and ``commit N NEXT`` after each commit, where NEXT is the number of the next event.
"""

from __future__ import annotations

import random
import sys
from datetime import timedelta

from tests.runtime.changelog.compaction.logs import SMALL, compact, trim
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
from tidemark.protocol.store.opening import opened
from tidemark.runtime.changelog.writer import LogWriter


def main(place: str, seed: int) -> None:
    rng = random.Random(seed)
    log = LogWriter.open(opened(place), "shop")
    orders = log.bind(ORDERS, ORDER_SCHEMA, ["id"])
    _say("open")
    next_id = log.state.get("next", 0)
    while True:
        for _ in range(rng.randrange(5, 20)):
            batch = log.begin()
            count = rng.choice([0, 1, 3, 50])
            batch.add(orders, [order(id) for id in range(next_id, next_id + count)])
            next_id += count
            _say("commit", log.commit(batch, {"next": next_id}, 1).number, next_id)
        compact(log, SMALL, grace=timedelta(seconds=rng.choice([0, 1])))
        if rng.random() < 0.3:
            trim(log, grace=timedelta(seconds=rng.choice([0, 1])))


def _say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
