"""A run of scores says how far it is while its tasks run, and ends within its budget."""

import threading

from offpeak.ui.forecast import scoring
from offpeak.ui.forecast.log_scores import RUN_TIME, LogTask

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


def test_what_is_not_scored_within_the_budget_is_named(monkeypatch, ran, written):
    """The clock of the run stands still until the shorter task is done."""
    file, clock = written(ran), [0.0]
    tasks = [LogTask(file, RUN_TIME, "last two", jobs=10**6), LogTask(file, RUN_TIME, "estimate", jobs=1)]
    monkeypatch.setattr(scoring, "_planned", lambda _: (tasks, ()))
    monkeypatch.setattr(scoring.time, "monotonic", lambda: clock[0])

    class OneAfterTheOther:
        def run(self, function, tasks, done):
            for task in tasks:
                done(task, function(task))
                clock[0] += 120.0

    report = scoring.scores(scoring.ScoredFiles((), budget_s=60.0), OneAfterTheOther(), lambda *_: None)
    (table,) = report.tables
    assert [row[1] for row in table.rows] == ["estimate"]
    assert report.notes[0] == f"left out, not scored within 60 s: {file.name}, run time, last two"
