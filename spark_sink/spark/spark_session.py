"""The Spark session of a job: the active one, or a new one with the requested settings."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.spark.driver_jvm import AT_LAUNCH, launch, scratch_folder
from tidemark.spark_sink.spark.failures import lost_session, spark_exceptions, tidemark_error
from tidemark.spark_sink.spark.requirements import check_java, check_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_NAMED_BY_SPARK = ("pyspark-shell", "__main__.py")
"""Default names of applications."""

_NAME_A_MASTER = ("spark.remote", "spark.master")
"""Settings that stand for a master, the stronger one first."""

_CONNECT_SECONDS = 30
"""How long a Spark Connect server may take to answer."""


def open_session(master: str | None, conf: Mapping[str, str]) -> tuple[SparkSession, bool]:
    """A session, and whether it is ours to stop.

    The master is the given one; else the active session's; else what Spark itself was told, by ``spark-submit``,
    ``PYSPARK_SUBMIT_ARGS``, ``MASTER``, ``SPARK_REMOTE`` or ``spark-defaults.conf``; else ``local[*]``. Settings go the
    same way: those in ``conf`` win over what Spark was told, and where neither says anything, a local session gets ours
    (UTC, no web page, nothing left behind). An active session takes those of ``conf`` that it can still change.

    Args:
        master: ``local[4]``, ``spark://host:7077``, ``yarn``, or ``sc://host`` for Spark Connect. None: as above.
        conf: Spark's settings by name. ``spark.master`` and ``spark.remote`` among them stand for ``master``.

    Raises:
        SparkError: ``TM-SPK-001`` without a Java that Spark runs on, ``TM-SPK-002`` without the right packages,
            ``TM-SPK-021`` when the active session has another master or setting, and cannot change it, ``TM-SPK-023``
            when Spark refuses the master or a setting, ``TM-SPK-013`` when a server or a cluster does not answer.
    """
    check_packages()
    master = master_of(master, conf)
    settings = {name: value for name, value in conf.items() if name not in _NAME_A_MASTER}
    if session := active_session():
        _agree(session, master, settings)
        return session, False
    remote = master if master and master.startswith("sc://") else None if master else os.environ.get("SPARK_REMOTE")
    try:
        return (_connect(remote, settings) if remote else _classic(master, settings)), True
    except spark_exceptions() as error:
        failed = tidemark_error(error)
        if remote or lost_session(error):
            raise failed from None
        raise SparkError("TM-SPK-023", failed.message) from None


def master_of(master: str | None, conf: Mapping[str, str]) -> str | None:
    """The master that is asked for, by itself or in settings; None where nothing asks for one."""
    return master or next((conf[name] for name in _NAME_A_MASTER if conf.get(name)), None)


def is_local_master(master: str | None) -> bool:
    """Whether executors are threads of the driver's own JVM, as they are where nothing asks for a master."""
    return not master or re.fullmatch(r"local(\[.*\])?", master) is not None


def is_local(session: SparkSession) -> bool:
    """Whether executors are threads of the driver's own JVM."""
    # Where a classic session is asked for a setting, Spark prepares all that plans queries. Not every job needs that.
    master = session.conf.get("spark.master", "") if is_connect(session) else session.sparkContext.master
    return bool(master) and is_local_master(master)


def is_connect(session: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect."""
    return ".connect." in type(session).__module__


def cancel_jobs(session: SparkSession) -> None:
    """Ends all jobs of a session that run."""
    # A session that has ended has none: whoever used it has the error.
    with suppress(*spark_exceptions()):
        if is_connect(session):
            session.interruptAll()
        else:
            session.sparkContext.cancelAllJobs()


def active_session() -> SparkSession | None:
    """The session that this thread would use; None without one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if session := SparkSession.getActiveSession():
        return session
    # Of another thread, or of a program that made the context alone.
    return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context is not None else None


def _agree(session: SparkSession, master: str | None, settings: Mapping[str, str]) -> None:
    """Gives a foreign session the settings that it can change; a setting that it cannot change is an error."""
    if master:
        connect = is_connect(session)
        given = re.sub(r"^sc://([^/;]+).*", r"\1", master) if connect else master
        # Without a port, Connect's own is meant.
        given = f"{given}:15002" if connect and ":" not in given else given
        active = session.client._builder.endpoint if connect else session.sparkContext.master  # type: ignore[attr-defined]
        if given != active:
            raise SparkError("TM-SPK-021", f"the active session's master is {active}, but {master} was requested")
    for name, value in settings.items():
        if session.conf.get(name, None) != value:
            if not session.conf.isModifiable(name):
                raise SparkError("TM-SPK-021", f"the active session has another {name}, which can no longer change")
            session.conf.set(name, value)


def _connect(url: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    try:
        if url.startswith("sc://"):
            _reach(url)
        builder = SparkSession.builder.remote(url)
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise SparkError(
            "TM-SPK-002",
            f"{url} is a Spark Connect server, and the Spark Connect client is not installed: {reason}",
            remedy="pip install 'tidemark[connect]'",
        ) from None


def _reach(url: str) -> None:
    """Makes sure that a server answers. Spark's own client tries for many minutes, also when the program ends.

    Raises:
        SparkError: ``TM-SPK-013``.
    """
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder = DefaultChannelBuilder(url)
    with builder.toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(_CONNECT_SECONDS)
        except grpc.FutureTimeoutError:
            raise SparkError(
                "TM-SPK-013",
                f"no Spark Connect server has answered at {builder.endpoint} within {_CONNECT_SECONDS} s",
                remedy="Check that the server of --master, spark.master or SPARK_REMOTE runs and can be reached.",
            ) from None


def _classic(master: str | None, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # With it in the environment PySpark makes Connect sessions only, and this one was asked not to be one.
    os.environ.pop("SPARK_REMOTE", None)
    asked = {**settings, **({"spark.master": master} if master else {})}
    if SparkContext._jvm is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        check_java()
        launch(asked)
    SparkContext._ensure_initialized()
    # Now it knows what the JVM was told: by spark-submit, by spark-defaults.conf.
    conf = SparkConf()
    for name in AT_LAUNCH:
        if name in asked and conf.get(name, None) != asked[name]:
            logger.warning("%s has no effect, since the driver's JVM is already running: pass it to spark-submit", name)
    # Spark turns it on in whatever it takes for a shell, and its bars would stand between our lines.
    conf.set("spark.ui.showConsoleProgress", "false")
    for name, value in asked.items():
        conf.set(name, value)
    conf.setIfMissing("spark.master", "local[*]")
    if conf.get("spark.app.name", None) in (None, *_NAMED_BY_SPARK):
        conf.setAppName("tidemark")
    local = str(conf.get("spark.master")).startswith("local")
    for name, value in (_local_settings() if local else _CLUSTER_SETTINGS).items():
        conf.setIfMissing(name, value)
    if python := conf.get("spark.pyspark.python", None):
        os.environ["PYSPARK_PYTHON"] = python
    elif local:
        # Spark starts Python by this name, and python3 from PATH otherwise, which may be another one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    interrupted = signal.getsignal(signal.SIGINT)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    if threading.current_thread() is threading.main_thread():
        # PySpark cancels all jobs on SIGINT; whoever calls decides what a signal means.
        signal.signal(signal.SIGINT, interrupted)
    return session


_CLUSTER_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # A JVM of ours says nothing by itself; of a cluster it has to be said that no worker takes a job.
    "spark.log.level": "WARN",
}


def _local_settings() -> dict[str, str]:
    scratch = scratch_folder()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(cores, 2)),
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.local.dir": str(scratch / "local"),
        "spark.driver.maxResultSize": "0",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
    }
