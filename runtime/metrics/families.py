"""Samples as Prometheus' library takes them."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family

from tidemark.runtime.metrics.names import Metric

Samples = Iterable[tuple[tuple[str, ...], float]]


def info(metric: Metric, **values: str) -> Family:
    """A family whose one sample says values in words."""
    family = InfoMetricFamily(metric.name, metric.help, labels=())
    family.add_metric((), values)
    return family


def gauge(metric: Metric, samples: Samples) -> Family:
    """A family of what goes up and down."""
    return _with(GaugeMetricFamily(metric.name, metric.help, labels=metric.labels), samples)


def counter(metric: Metric, samples: Samples) -> Family:
    """A family of what is counted."""
    return _with(CounterMetricFamily(metric.name, metric.help, labels=metric.labels), samples)


def _with(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Family:
    for labels, value in samples:
        family.add_metric(labels, value)
    return family
