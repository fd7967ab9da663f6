"""Tests of the Spark side. Assertions of what they share say what differs."""

import pytest

pytest.register_assert_rewrite("tests.spark_sink.lake")
