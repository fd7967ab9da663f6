"""The steps of ``World`` as a Hypothesis state machine: any of them may follow any other."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.backfill.database import KEYED, KEYS, PAGES, TABLES, Change, Wish
from tests.backfill.reader import WHERE
from tests.backfill.world import World
from tidemark.backfill.limits import Limits

_tables = st.sampled_from(TABLES)
_keys = st.sampled_from(KEYS)
_places = st.one_of(st.none(), _keys)
_wishes = st.lists(
    st.builds(Wish, _tables, st.sampled_from(Change), _keys, _keys, st.sampled_from(PAGES)), min_size=1, max_size=3
)
_reveal = st.one_of(st.none(), st.integers(0, 3))
_which = st.integers(0, 2)
_limits = st.builds(
    Limits,
    window=st.sampled_from([4, 2, 50]),
    reread_bytes=st.sampled_from([8, 16]),
    reread_least=st.sampled_from([1, 2]),
    reread_keys=st.sampled_from([3, 2, 8]),
    rereads_per_chunk=st.sampled_from([2, 1]),
    range_bytes=st.sampled_from([400, 100]),
    overflows=st.sampled_from([2, 1]),
)


class BackfillMachine(RuleBasedStateMachine):
    world: World | None = None

    @initialize(
        filled=st.sets(_keys, min_size=3),
        limits=_limits,
        hidden=st.sampled_from([50, 4]),
        whole_transactions=st.booleans(),
        physical=st.sets(st.sampled_from(KEYED)),
        open_end=st.booleans(),
        mariadb=st.booleans(),
    )
    def begin_capture(
        self,
        filled: set[int],
        limits: Limits,
        hidden: int,
        whole_transactions: bool,
        physical: set[str],
        open_end: bool,
        mariadb: bool,
    ) -> None:
        self.world = World(
            sorted(filled),
            limits,
            hidden=hidden,
            whole_transactions=whole_transactions,
            physical=physical,
            open_end=open_end,
            mariadb=mariadb,
        )

    # Hypothesis switches some rules off in each run, so these three are enough to get anywhere.

    @rule(wishes=_wishes, begin=st.booleans(), oldest=st.booleans(), reveal=_reveal, events=st.integers(0, 6))
    def work(self, wishes: list[Wish], begin: bool, oldest: bool, reveal: int | None, events: int) -> None:
        """The database commits a transaction; perhaps one becomes visible, and the log is read a little."""
        database = self._begun.database
        if begin:
            database.begin()
        database.commit(wishes, oldest=oldest)
        if reveal is not None:
            database.reveal(reveal)
        self._begun.read_log(events)

    @rule(
        table=_tables,
        which=_which,
        stages=st.integers(1, 7),
        limit=st.integers(1, 3),
        loose=st.booleans(),
        unsure=st.booleans(),
    )
    def chunk(self, table: str, which: int, stages: int, limit: int, loose: bool, unsure: bool) -> None:
        for _ in range(stages):
            self._begun.chunk(table, limit, which=which, tight=not loose, conservative=unsure)

    @rule(reveal=_reveal, events=st.integers(0, 6), track=st.frozensets(_tables))
    def get_on(self, reveal: int | None, events: int, track: frozenset[str]) -> None:
        if reveal is not None:
            self._begun.database.reveal(reveal)
        self._begun.read_log(events, track)

    @rule(wishes=st.one_of(st.none(), _wishes), choice=_which)
    def two_phases(self, wishes: list[Wish] | None, choice: int) -> None:
        """A two-phase transaction is prepared, or one that was is committed."""
        if wishes is None:
            self._begun.database.commit_prepared(choice)
        else:
            self._begun.database.prepare(wishes)

    @rule(table=_tables)
    def finish_chunk(self, table: str) -> None:
        """The connector gets on while the database rests."""
        self._begun.read_log(6)
        for _ in range(7):
            self._begun.chunk(table)

    @rule(refresh=st.booleans(), unsure=st.booleans())
    def checkpoint(self, refresh: bool, unsure: bool) -> None:
        if refresh:
            self._begun.refresh(conservative=unsure)
        self._begun.checkpoint()

    @rule(table=st.sampled_from(KEYED), which=_which, bounds=st.sets(_keys, max_size=3))
    def split(self, table: str, which: int, bounds: set[int]) -> None:
        self._begun.split(table, which, bounds)

    @rule(table=_tables, first=_places, until=_places, where=st.sampled_from(tuple(WHERE)))
    def add(self, table: str, first: int | None, until: int | None, where: str | None) -> None:
        self._begun.add(table, first, until, where)

    @rule(table=st.sampled_from(KEYED), reveal=st.booleans(), stages=st.integers(0, 20))
    def compare(self, table: str, reveal: bool, stages: int) -> None:
        """All rows of a table are compared; perhaps the connector gets on with it."""
        world = self._begun
        if reveal:
            while world.database.invisible:
                world.database.reveal(0)
            world.read_log(1_000)
            world.refresh()
        world.compare(table)
        for _ in range(stages):
            world.chunk(table)

    @rule(mishap=st.sampled_from(["crash", "abandon", "restart", "rewrite"]), table=_tables, which=_which)
    def suffer(self, mishap: str, table: str, which: int) -> None:
        """The connector is killed, a chunk's connection is lost, a table's key changes, or its file."""
        if mishap == "crash":
            self._begun.crash()
        elif mishap == "abandon":
            self._begun.abandon(table, which)
        elif mishap == "rewrite":
            self._begun.database.rewrite(table)
        else:
            self._begun.restart(table)

    @invariant()
    def done_tables_are_equal(self) -> None:
        if self.world is not None:
            self.world.check()

    def teardown(self) -> None:
        if self.world is not None:
            self.world.quiesce()

    @property
    def _begun(self) -> World:
        assert self.world is not None
        return self.world
