"""A package that is missing is an error that names the extra which brings it."""

from __future__ import annotations

import pickle

import pytest

from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.extras import MissingExtraError, missing_extra


@pytest.mark.parametrize(
    ("package", "extra"), [("psycopg.pq", "postgres"), ("pyspark", "spark"), ("docker", "docker"), ("grpc", "connect")]
)
def test_a_missing_package_names_its_extra(package: str, extra: str) -> None:
    error = missing_extra(ModuleNotFoundError(f"No module named {package!r}", name=package))
    assert isinstance(error, ImportError) and isinstance(error, TidemarkError)
    command = f"pip install 'tidemark[{extra}]'"
    assert str(error) == f"TM-RUN-012: the Python package {package.partition('.')[0]} is missing: {command}"
    assert error.remedy == command
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (MissingExtraError, str(error))


def test_a_module_that_no_extra_brings_is_not_explained_away() -> None:
    assert missing_extra(ModuleNotFoundError("No module named 'shop'", name="shop")) is None
