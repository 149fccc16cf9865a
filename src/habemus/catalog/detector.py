"""Failure detection in the catalog."""

from __future__ import annotations

from habemus.catalog.problems import Problem, later
from habemus.problems.detector import Detector
from habemus.problems.detector_monitor import PROPERTIES

HOUR = 3_600_000_000


DETECTOR = Problem(
    "detector",
    "failure detection",
    Detector,
    PROPERTIES,
    tuple(each.name for each in PROPERTIES),
    later("habemus.runs.detector", "workload"),
    later("habemus.runs.detector", "DetectorJudge"),
)
