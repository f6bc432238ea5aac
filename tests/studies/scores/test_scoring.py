"""A run of scores says how far it is while its tasks run."""

import threading

from studies.scores import scoring
from studies.scores.log_scores import RUN_TIME, LogTask

WAIT_S = 300


class ReportedBeforeDone:
    """An executor that ends a task only after its progress was reported."""

    def __init__(self):
        self.reported = threading.Event()

    def progress(self, done_s, total_s):
        if 0 < done_s <= total_s:
            self.reported.set()

    def run(self, function, tasks, done):
        for task in tasks:
            result = function(task)
            assert self.reported.wait(WAIT_S)
            done(task, result)


def test_the_progress_within_a_task_is_reported(monkeypatch, ran, written):
    task = LogTask(written(ran), RUN_TIME, "estimate", jobs=10**6)
    monkeypatch.setattr(scoring, "_planned", lambda _: ([task], ()))
    monkeypatch.setattr(scoring, "WATCHED_S", 1e-3)
    executor, lines = ReportedBeforeDone(), []
    scoring.scores(scoring.ScoredFiles(()), executor, executor.progress, lines.append)
    assert len(lines) == 1
