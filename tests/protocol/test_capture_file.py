"""The capture file: what it accepts, and that every mistake is named with its line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.protocol.capture_file import TableEntry, read_capture_file
from tidemark.protocol.capture_file.spark_entry import KindEntry
from tidemark.protocol.errors import UsageError

WHOLE = """\
capture: shop
connector:
  image: tidemark/postgres
  network: host
  config: {host: db, password: {env: PGPASSWORD}}
tables:
  - public.orders
  - "sales.*"
  - {table: public.users, exclude: [ssn], scan: key, key: [id], where: "id > 3", priority: 2, text: [price],
     backfill: 1}
log: ./shop.log
commit: {interval: 250ms, bytes: 64MiB}
spark:
  format: delta
  warehouse: ./lake
  master: spark://host:7077
  conf: {spark.executor.memory: 2g, spark.executor.cores: 2, spark.ui.enabled: true}
  trigger: 500ms
  fold: {share: 0.5, max_staleness: 10m}
  tables: {"*": current, public.orders: [current, history]}
"""

LEAST = "capture: shop\nconnector: {command: [x]}\nlog: l\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "capture.yaml"
    path.write_text(text, "utf-8")
    return path


def test_every_entry_is_read(tmp_path: Path) -> None:
    file = read_capture_file(write(tmp_path, WHOLE))
    assert (file.capture, file.connector.image, file.connector.network) == ("shop", "tidemark/postgres", "host")
    assert file.connector.config["password"] == {"env": "PGPASSWORD"}
    assert file.tables is not None
    assert file.tables[:2] == [TableEntry(table="public.orders"), TableEntry(table="sales.*")]
    assert file.tables[2].options == {
        "exclude": ["ssn"],
        "scan": "key",
        "key": ["id"],
        "where": "id > 3",
        "priority": 2,
        "on_bad_value": {"price": "text"},
    }
    assert (file.tables[2].text, file.tables[2].backfill) == (["price"], 1)
    assert (file.commit.interval, file.commit.bytes) == (0.25, 64 * 2**20)
    assert file.spark is not None
    kinds = {pattern: list(kinds) for pattern, kinds in file.spark.tables.items()}
    assert kinds == {"*": ["current"], "public.orders": ["current", "history"]}
    assert (file.spark.warehouse, file.spark.master) == (Path("lake"), "spark://host:7077")
    # As Spark writes values: YAML makes numbers and truth values of them.
    assert file.spark.conf == {
        "spark.executor.memory": "2g",
        "spark.executor.cores": "2",
        "spark.ui.enabled": "true",
    }
    assert (file.spark.trigger, file.spark.fold.share, file.spark.fold.max_staleness) == (0.5, 0.5, 600.0)


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    file = read_capture_file(write(tmp_path, LEAST))
    assert file.tables is None
    assert file.spark is None
    assert (file.commit.interval, file.commit.bytes) == (1.0, 128_000_000)
    spark = read_capture_file(write(tmp_path, LEAST + "spark: {warehouse: w}\n")).spark
    assert spark is not None
    assert (spark.format, spark.master, spark.conf, spark.tables) == (
        "delta",
        None,
        {},
        {"*": {"current": KindEntry()}},
    )
    assert (spark.on_schema_change, spark.show) == ("evolve", "whole")
    assert (spark.trigger, spark.fold.share, spark.fold.max_staleness) == (1.0, 0.25, None)


def test_paths_start_at_the_file_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a shop"
    place.mkdir()
    write(place, LEAST)
    monkeypatch.chdir(tmp_path)
    assert read_capture_file(Path("a shop/capture.yaml")).log_store().place == str(place / "l")
    write(place, LEAST.replace("log: l", f"log: {tmp_path}/elsewhere"))
    assert read_capture_file(Path("a shop/capture.yaml")).log_store().place == str(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("captur: shop\nconnector: {command: [x]}\nlog: l\n", ["line 1: captur: unknown key (did you mean capture?)"]),
        ("connector: {command: [x]}\nlog: l\n", ["capture: missing"]),
        (LEAST + "commit:\n  intervall: 1s\n", ["line 5: commit.intervall: unknown key (did you mean interval?)"]),
        (LEAST + "commit:\n  interval: soon\n", ["line 5: commit.interval: a duration is a number with a unit"]),
        (LEAST + "commit: {interval: 0s}\n", ["line 4: commit.interval: Input should be greater than 0"]),
        (LEAST.replace("[x]", "[x], answer: .inf"), ["line 2: connector.answer: Input should be less than"]),
        (LEAST.replace("command: [x]", "image: x, limits: {cpus: .inf}"), ["line 2: connector.limits.cpus: Input"]),
        (LEAST + "commit: {interval: .inf}\n", ["line 4: commit.interval: Input should be less than or equal to"]),
        (LEAST.replace("[x]", "[x], config: {since: 2024-01-01}"), ["line 2: connector.config.since: input was not a"]),
        (LEAST.replace("log: l", "log: ''"), ["line 3: log: a path must not be empty"]),
        (LEAST.replace("log: l", "log: ~no-such-user/l"), ["line 3: log: this user has no home directory"]),
        (LEAST + "commit: {bytes: 12 parsecs}\n", ["line 4: commit.bytes: a size is a number with a unit"]),
        (LEAST.replace("command: [x]", "image: i, command: [x]"), ["line 2: connector: give exactly one of image and"]),
        (LEAST.replace("command: [x]", "config: {}"), ["line 2: connector: give exactly one of image and command"]),
        (LEAST.replace("command: [x]", "command: []"), ["line 2: connector.command: List should have at least 1 item"]),
        (LEAST.replace("command: [x]", "command: x y"), ["line 2: connector.command: Input should be a valid list"]),
        (LEAST.replace("command: [x]", "command: [x], network: host"), ["line 2: connector: network is for an image"]),
        (LEAST + "tables:\n  - a.b\n  - {table: a.c, exclude: x}\n", ["line 6: tables.1.exclude: Input should be a"]),
        (LEAST + "tables:\n  - {table: a.c, x: 2024-01-01}\n", ["line 5: tables.0.x: input was not a valid"]),
        (LEAST + "tables: public.orders\n", ["line 4: tables: Input should be a valid list"]),
        (LEAST.replace("log: l", "log: ftp://bucket/x"), ["line 3: log: stores are s3, gs, az, or a local path"]),
        (LEAST + "store: {endpont: x}\n", ["line 4: store.endpont: unknown key (did you mean endpoint?)"]),
        (LEAST + "store: {region: {env: A, file: b}}\n", ["line 4: store.region"]),
        (LEAST + "spark: {warehouse: w, tables: {a.b: [latest]}}\n", ["line 4: spark.tables.a.b.latest: Input should"]),
        (LEAST + "spark: {warehouse: w, tables: {'*': scd2}}\n", ["line 4: spark.tables.*.scd2: Input should be 'cur"]),
        (LEAST + "spark: {warehouse: w, tables: {a.b: {current: false}}}\n", ["tables.a.b.current: Input should"]),
        (LEAST + "spark: {warehouse: w, tables: {a.b: {current: {sho: whole}}}}\n", ["unknown key (did you mean show"]),
        (LEAST + "spark: {warehouse: w, format: iceberg}\n", ["line 4: spark.format: Input should be 'delta'"]),
        (LEAST + "spark: {warehouse: w, mastr: x}\n", ["line 4: spark.mastr: unknown key (did you mean master?)"]),
        (LEAST + "spark: {warehouse: w, fold: {shar: 1}}\n", ["spark.fold.shar: unknown key (did you mean share?)"]),
        (LEAST + "spark: {warehouse: w, fold: {share: 0}}\n", ["line 4: spark.fold.share: Input should be greater"]),
        (LEAST + "spark: {warehouse: w, fold: {share: 1.1}}\n", ["spark.fold.share: Input should be less than or eq"]),
        (LEAST + "spark: {warehouse: w, fold: {share: .nan}}\n", ["line 4: spark.fold.share: Input should be"]),
        (LEAST + "spark: {warehouse: w, fold: {max_staleness: soon}}\n", ["spark.fold.max_staleness: a duration is"]),
        (LEAST + "spark: {warehouse: w, trigger: 0s}\n", ["line 4: spark.trigger: Input should be greater than 0"]),
        (LEAST + "spark:\n  warehouse: w\n  conf:\n    ui: x\n", ["line 7: spark.conf.ui: the name of a Spark"]),
        (LEAST + "spark: {warehouse: w, conf: {spark.a: [1]}}\n", ["spark.conf.spark.a: Input should be a valid str"]),
        (LEAST + "capture: again\n", ["line 4: capture: listed twice"]),
        (LEAST + "folder: x\n", ["line 4: folder: unknown key"]),
        (LEAST + "commit: {interval: x}\nspark: {format: csv}\n", ["line 5: spark.warehouse: missing"]),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, told: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_capture_file(path)
    assert caught.value.code == "TM-CFG-002"
    assert caught.value.exit_status == 2
    for words in told:
        assert words in caught.value.message


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "capture: shop\nconnector: {comand: [x]}\nlogg: l\ncommit: {interval: x}\n"
    with pytest.raises(UsageError) as caught:
        read_capture_file(write(tmp_path, text))
    lines = caught.value.message.splitlines()
    assert lines[0].endswith("has 4 mistakes:")
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["line 1", "line 2", "line 3", "line 4"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("capture: [shop\nlog: l\n", "is not YAML: line 2, column"),
        ("a: b: c\n", "is not YAML: line 1, column 5"),
        ("a: \x01\n", "is not YAML"),
        ("", "holds no entries"),
        ("- a\n", "holds no entries"),
        ("? [a]\n: b\n", "is not YAML"),
        ("[" * 2000, "is nested too deep"),
        (LEAST.replace("[x]", "[x], config: &a {b: *a}"), "is nested too deep"),
        (LEAST + "tables: [2024-13-45]\n", "looks like a date or a number"),
        (LEAST + "commit: {interval: !!float soon}\n", "looks like a date or a number"),
    ],
)
def test_what_is_not_a_capture_file_at_all(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_capture_file(write(tmp_path, text))
    assert caught.value.code == "TM-CFG-001"
    assert told in caught.value.message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_capture_file(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="Is a directory"):
        read_capture_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"capture: caf\xe9\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_capture_file(tmp_path / "latin.yaml")


def test_values_are_never_repeated_in_a_message(tmp_path: Path) -> None:
    text = LEAST.replace("command: [x]", "command: [x], config: hunter2, network: hunter3") + "log2: hunter4\n"
    with pytest.raises(UsageError) as caught:
        read_capture_file(write(tmp_path, text))
    assert "hunter" not in str(caught.value) + caught.value.remedy


def test_the_room_is_imported_without_a_yaml_reader_and_says_when_it_lacks_one(tmp_path: Path) -> None:
    """Connectors' images and executors have none."""
    path = write(tmp_path, LEAST)
    code = (
        "import sys; sys.modules['yaml'] = None; from pathlib import Path\n"
        "from tidemark.protocol.capture_file import read_capture_file\n"
        "from tidemark.protocol.errors import UsageError\n"
        "try: read_capture_file(Path(sys.argv[1]))\n"
        "except UsageError as error: print(error.code, error.message)"
    )
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert ended.stdout == f"TM-RUN-012 reading {path} needs the Python package yaml\n"
