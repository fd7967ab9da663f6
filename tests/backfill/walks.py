"""Random walks through ``World``: a tenth of the time that Hypothesis needs for a run, and nothing is made smaller."""

from __future__ import annotations

from random import Random

from tests.backfill.database import KEYS, TABLES, Change, Wish
from tests.backfill.world import Limits, World

STEPS = 80

_ROW_CHANGES = (
    Change.WRITE,
    Change.UPDATE,
    Change.UPDATE,
    Change.DELETE,
    Change.MOVE,
    Change.MOVE_PARTIAL,
)


class Walk:
    """One walk. The same seed gives the same walk."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.unsure = random.random() < 0.3
        self.truncates = random.choice((0.0, 0.05))
        self.world = World(
            [key for key in KEYS if random.random() < 0.7],
            Limits(
                window=random.choice((2, 4, 50)),
                reread=random.choice((1, 2)),
                request=random.choice((2, 3, 8)),
                hidden=random.choice((4, 50)),
            ),
            whole_transactions=random.random() < 0.5,
        )
        self.steps = (
            (20, self.commit),
            (3, self.world.database.begin),
            (13, lambda: self.world.database.reveal(random.randrange(5))),
            (20, self.read_log),
            (34, self.chunk),
            (5, self.world.checkpoint),
            (2, self.world.crash),
            (1, lambda: self.world.abandon(random.choice(TABLES))),
            (1, lambda: self.world.restart(random.choice(TABLES))),
            (1, lambda: self.world.refresh(conservative=self.unsure)),
        )

    def run(self) -> None:
        """Raises AssertionError when something does not hold."""
        weights, steps = zip(*self.steps, strict=True)
        for step in self.random.choices(steps, weights, k=STEPS):
            step()
        self.world.quiesce()

    def commit(self) -> None:
        wishes = [self.wish() for _ in range(self.random.choice((1, 1, 2, 3)))]
        self.world.database.commit(wishes, oldest=self.random.random() < 0.3)

    def wish(self) -> Wish:
        random = self.random
        change = Change.TRUNCATE if random.random() < self.truncates else random.choice(_ROW_CHANGES)
        return Wish(random.choice(TABLES), change, random.choice(KEYS), random.choice(KEYS))

    def read_log(self) -> None:
        track = frozenset(table for table in TABLES if self.random.random() < 0.8)
        self.world.read_log(self.random.randrange(1, 6), track)

    def chunk(self) -> None:
        random = self.random
        table = random.choice(TABLES)
        for _ in range(random.randrange(1, 5)):
            self.world.chunk(
                table,
                random.randrange(1, 4),
                conservative=self.unsure and random.random() < 0.5,
                tight=random.random() < 0.7,
            )
