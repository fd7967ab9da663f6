"""Many small tables, whose chunks are read together: each is right by itself."""

from __future__ import annotations

import threading
from random import Random

from tests.captures.session import Session
from tests.conformance.engine import Engine
from tests.conformance.test_backfill import snapshot_ids

TABLES = 90
"""More than are read together."""

ROWS = 3


def test_small_tables_that_change_while_they_are_read(engine: Engine) -> None:
    names = [f"t{number}" for number in range(TABLES)]
    engine.execute(*(f"CREATE TABLE {name} (id int PRIMARY KEY, v int)" for name in names))
    engine.execute(*(f"INSERT INTO {name} VALUES (1, 0), (2, 0), (3, 0)" for name in names))
    stop = threading.Event()

    def write() -> None:
        random = Random(2)
        with engine.transaction() as run:
            for number in range(10, 1000):
                for name in random.sample(names, 4):
                    some = random.choice([1, 2, 3, random.randint(10, number)])
                    run(f"UPDATE {name} SET v = {number} WHERE id = {some}")
                    run(f"DELETE FROM {name} WHERE id = {random.choice([2, some])}")
                    run(f"INSERT INTO {name} VALUES ({number}, 1)")
                    run(f"UPDATE {name} SET id = {-number} WHERE id = {random.choice([3, number - 1])}")
                run("COMMIT")
                if stop.is_set():
                    return

    writer = threading.Thread(target=write)
    try:
        writer.start()
        with engine.capture(engine.bindings(*names)) as capture:
            capture.until(Session.done)
            stop.set()
            writer.join()
            for binding, name in enumerate(names):
                engine.until_equal(capture, name, binding=binding)
                read = snapshot_ids(capture.documents, binding)
                assert len(read) == len(set(read))
    finally:
        stop.set()
        writer.join()


def test_one_that_cannot_be_read_holds_up_no_other(engine: Engine) -> None:
    names = [f"t{number}" for number in range(8)]
    engine.execute(*(f"CREATE TABLE {name} (id int PRIMARY KEY, v int)" for name in names))
    engine.execute(*(f"INSERT INTO {name} VALUES (1, 0)" for name in names))
    bound = engine.bindings(*names)
    bound[3:4] = engine.bindings(names[3], where="v = (SELECT v FROM t0 UNION ALL SELECT 1)")
    with engine.capture(bound) as capture:
        capture.until(lambda c: len(c.documents) == len(names) - 1)
        assert {binding for binding, _ in capture.documents} == set(range(len(names))) - {3}
