"""The jobs of a window as rectangles."""

import base64
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from offpeak.model.arrays import Int64
from offpeak.sim_backend.comparison.figures import BusiestWindow
from offpeak.ui.report import nodes_figure as job_blocks
from offpeak.ui.report.figure import Json
from offpeak.ui.report.nodes_figure import blocks_json, class_keys, shown_jobs
from offpeak.ui.report.subject import ReportSubject

Make = Callable[..., ReportSubject]


def unpacked(array: Json) -> Int64:
    return np.frombuffer(base64.b64decode(array["bdata"]), f"<{array['dtype']}").astype(np.int64)


def test_rectangles_are_the_node_seconds_of_the_window(subject: ReportSubject) -> None:
    window = BusiestWindow(100_000, 200_000)
    shown = [shown_jobs(subject, policy, window) for policy in subject.policies]
    document = blocks_json(subject, window, shown)
    assert len(document["text"]) == len(np.unique(np.concatenate(shown)))
    for policy, made in zip(subject.policies, document["policies"], strict=True):
        start_s, end_s, low, high = (unpacked(made[name]) for name in ("start_s", "end_s", "low", "high"))
        assert 0 <= start_s.min() < end_s.max() <= 100_000
        schedule, size = policy.run.schedule, subject.comparison.case.jobs.size
        inside_s = np.minimum(schedule.end_s, window.until_s) - np.maximum(schedule.start_s, window.from_s)
        assert ((end_s - start_s) * (high - low)).sum() == (size * np.maximum(inside_s, 0)).sum()


def test_of_too_many_jobs_the_largest_are_shown(subject: ReportSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    window = BusiestWindow(subject.comparison.begin_s, subject.comparison.until_s)
    policy = subject.policies[0]
    node_s = subject.comparison.case.jobs.size * (policy.run.schedule.end_s - policy.run.schedule.start_s)
    monkeypatch.setattr(job_blocks, "MOST_JOBS", 5)
    shown = shown_jobs(subject, policy, window)
    assert sorted(node_s[shown].tolist()) == sorted(node_s.tolist())[-5:]


def test_power_classes_are_shown_in_watts(make: Make) -> None:
    subject = make(50)
    assert [key.name.split(":")[0] for key in class_keys(subject).values()] == ["low", "middle", "high"]
    case = replace(subject.comparison.case, node_power_w=np.full(50, 200.0))
    equal = replace(subject, comparison=replace(subject.comparison, case=case))
    assert [key.name for key in class_keys(equal).values()] == ["200 W per node"]
