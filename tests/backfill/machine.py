"""The steps of ``World`` as a Hypothesis state machine: any of them may follow any other."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.backfill.database import KEYS, TABLES, Change, Wish
from tests.backfill.world import Limits, World

_tables = st.sampled_from(TABLES)
_keys = st.sampled_from(KEYS)
_wishes = st.lists(st.builds(Wish, _tables, st.sampled_from(Change), _keys, _keys), min_size=1, max_size=3)
_reveal = st.one_of(st.none(), st.integers(0, 3))
_limits = st.builds(
    Limits,
    window=st.sampled_from([4, 2, 50]),
    reread=st.sampled_from([1, 2]),
    request=st.sampled_from([3, 2, 8]),
    hidden=st.sampled_from([50, 4]),
)


class BackfillMachine(RuleBasedStateMachine):
    world: World | None = None

    @initialize(filled=st.sets(_keys, min_size=3), limits=_limits, whole_transactions=st.booleans())
    def begin_capture(self, filled: set[int], limits: Limits, whole_transactions: bool) -> None:
        self.world = World(sorted(filled), limits, whole_transactions=whole_transactions)

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

    @rule(table=_tables, stages=st.integers(1, 5), limit=st.integers(1, 3), loose=st.booleans(), unsure=st.booleans())
    def chunk(self, table: str, stages: int, limit: int, loose: bool, unsure: bool) -> None:
        for _ in range(stages):
            self._begun.chunk(table, limit, tight=not loose, conservative=unsure)

    @rule(reveal=_reveal, events=st.integers(0, 6), track=st.frozensets(_tables))
    def get_on(self, reveal: int | None, events: int, track: frozenset[str]) -> None:
        if reveal is not None:
            self._begun.database.reveal(reveal)
        self._begun.read_log(events, track)

    @rule(table=_tables)
    def finish_chunk(self, table: str) -> None:
        """The connector gets on while the database rests."""
        self._begun.read_log(6)
        for _ in range(5):
            self._begun.chunk(table)

    @rule(refresh=st.booleans(), unsure=st.booleans())
    def checkpoint(self, refresh: bool, unsure: bool) -> None:
        if refresh:
            self._begun.refresh(conservative=unsure)
        self._begun.checkpoint()

    @rule(mishap=st.sampled_from(["crash", "abandon", "restart"]), table=_tables)
    def suffer(self, mishap: str, table: str) -> None:
        """The connector is killed, a chunk's connection is lost, or a table's key changes."""
        if mishap == "crash":
            self._begun.crash()
        elif mishap == "abandon":
            self._begun.abandon(table)
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
