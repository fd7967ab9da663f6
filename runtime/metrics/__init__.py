"""Figures of a running capture for monitors: metrics in the OpenMetrics format, health and readiness."""
