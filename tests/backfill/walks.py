"""Random walks through ``World``: a tenth of the time that Hypothesis needs for a run, and nothing is made smaller."""

from __future__ import annotations

from random import Random

from tests.backfill.database import KEYED, KEYLESS, KEYS, PAGES, TABLES, Change, Wish
from tests.backfill.reader import WHERE
from tests.backfill.world import World
from tidemark.backfill.limits import Limits

STEPS = 80

_ROW_CHANGES = (
    Change.WRITE,
    Change.UPDATE,
    Change.UPDATE,
    Change.DELETE,
    Change.MOVE,
    Change.MOVE_PARTIAL,
)
_PLACES = (None, *KEYS)
_CONDITIONS = tuple(WHERE)


class Walk:
    """One walk. The same seed gives the same walk."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.mariadb = random.random() < 0.3
        self.unsure = random.random() < 0.3
        self.truncates = random.choice((0.0, 0.05))
        self.pages = range(random.choice((3, len(PAGES) + 2)))
        self.tables = random.choice((TABLES, KEYED, (*KEYED, "a"), ("a",), (KEYLESS,)))
        self.readers = random.choice((1, 2, 3))
        self.world = World(
            [key for key in KEYS if random.random() < 0.7],
            Limits(
                window=random.choice((2, 4, 50)),
                reread_bytes=random.choice((8, 16)),
                reread_least=random.choice((1, 2)),
                reread_keys=random.choice((2, 3, 8)),
                rereads_per_chunk=random.choice((1, 2, 8)),
                range_bytes=random.choice((100, 400, 800)),
                overflows=random.choice((1, 4)),
            ),
            hidden=random.choice((4, 50)),
            whole_transactions=random.random() < 0.5,
            physical=[table for table in KEYED if random.random() < 0.4],
            open_end=random.random() < 0.5,
            mariadb=self.mariadb,
        )
        database, world = self.world.database, self.world
        steering = random.choice((0, 2))
        comparing = 4 * (seed % 2)  # The other walks are those that find each rule.
        two_phases = 6 if self.mariadb else 2
        self.steps = (
            (20, self.commit),
            (3, database.begin),
            (two_phases, lambda: database.prepare([self.wish()])),
            (two_phases, lambda: database.commit_prepared(random.randrange(3))),
            (13, lambda: database.reveal(random.randrange(5))),
            (20, self.read_log),
            (34, self.chunk),
            (5, world.checkpoint),
            (2, world.crash),
            (1, lambda: world.abandon(self.table(), random.randrange(3))),
            (1, lambda: world.refresh(conservative=self.unsure)),
            (comparing, self.compare),
            (steering, self.split),
            (steering, self.add),
            (steering, lambda: world.restart(self.table())),
            (steering / 2, lambda: database.rewrite(self.table())),
        )

    def run(self) -> None:
        """Raises AssertionError when something does not hold."""
        weights, steps = zip(*self.steps, strict=True)
        for step in self.random.choices(steps, weights, k=STEPS):
            step()
        self.world.quiesce()

    def table(self) -> str:
        return self.random.choice(self.tables)

    def commit(self) -> None:
        wishes = [self.wish() for _ in range(self.random.choice((1, 1, 2, 3)))]
        self.world.database.commit(wishes, oldest=self.random.random() < 0.3)

    def wish(self) -> Wish:
        random = self.random
        change = Change.TRUNCATE if random.random() < self.truncates else random.choice(_ROW_CHANGES)
        return Wish(self.table(), change, random.choice(KEYS), random.choice(KEYS), random.choice(self.pages))

    def read_log(self) -> None:
        track = frozenset(table for table in TABLES if self.random.random() < 0.8)
        self.world.read_log(self.random.randrange(1, 6), track)

    def chunk(self) -> None:
        random = self.random
        table, which = self.table(), random.randrange(self.readers)
        for _ in range(random.randrange(1, 5)):
            self.world.chunk(
                table,
                random.randrange(1, 4),
                which=which,
                conservative=self.unsure and random.random() < 0.5,
                tight=random.random() < 0.7,
            )

    def compare(self) -> None:
        self.world.refresh()
        self.world.compare(self.table())

    def split(self) -> None:
        self.world.split(self.table(), self.random.randrange(3), self.random.sample(KEYS, 2))

    def add(self) -> None:
        random = self.random
        self.world.add(self.table(), random.choice(_PLACES), random.choice(_PLACES), random.choice(_CONDITIONS))
