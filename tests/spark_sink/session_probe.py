"""``session_probe.py STEPS``: opens sessions one after another in this process, and says what each is.

A step is a JSON object: ``master``, ``conf``, ``python`` (what executors are to run), ``keep`` (do not stop it, so that
the next step finds it active), ``check`` (the executors). Each is answered by a JSON line.
"""

from __future__ import annotations

import json
import os
import sys

from tidemark.protocol.errors import TidemarkError
from tidemark.spark_sink.spark.executors import check_executors
from tidemark.spark_sink.spark.spark_session import open_session

SHOWN = ("spark.master", "spark.sql.shuffle.partitions", "spark.ui.enabled", "spark.app.name", "spark.driver.memory")

if __name__ == "__main__":
    for step in json.loads(sys.argv[1]):
        if "python" in step:
            os.environ["PYSPARK_PYTHON"] = step["python"]
        answer: dict[str, object] = {}
        try:
            session, ours = open_session(step.get("master"), step.get("conf", {}))
            answer |= {"ours": ours, "rows": len(session.range(4).collect())}
            answer |= {name: session.conf.get(name, None) for name in SHOWN}
            jvm = session.sparkContext._jvm
            assert jvm is not None
            given = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
            answer["heap"] = next(argument for argument in given if argument.startswith("-Xmx"))
            if step.get("check"):
                check_executors(session)
        except TidemarkError as error:
            answer["error"] = str(error)
        if not step.get("keep") and "ours" in answer:
            session.stop()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
