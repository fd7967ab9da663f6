"""Whether a run will have something to apply, as far as the log and the memory of earlier runs tell.

The answer comes before the modules are imported that do the work, so that a session can open meanwhile. It is a hint: a
run that finds more or less to do than that is no less right.
"""

from __future__ import annotations

from tidemark.spark_sink.pipeline.memory import Memory, memory_place
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import Target


def expects_work(settings: KeepSettings) -> bool:
    """Whether a table that is kept lacks events, or no run before has left word of any.

    Raises:
        ChangeLogError: There is no log, or a commit of it is missing or damaged.
    """
    log = FollowedLog(settings.log)
    memory = Memory.load(memory_place(settings.warehouse, log.header.log_id))
    if settings.rebuild or settings.retry or not memory.tables:
        return log.end() > 0
    complete: dict[str, int] = {}
    for name, known in memory.tables.items():
        collection, _, kind = name.rpartition(" ")
        target = Target(collection, kind)
        is_kept_up = known.set_aside is None or not known.set_aside.needs_a_person
        if is_kept_up and settings.asks_for(target.table):
            complete[collection] = min(known.complete_to, complete.get(collection, known.complete_to))
    if not complete:
        return False
    end = log.end()
    return any(
        segment.last_offset >= complete.get(segment.collection, end)
        for commit in log.commits(log.commit_with_offset(max(min(complete.values()), log.start())))
        for segment in commit.segments
    )
