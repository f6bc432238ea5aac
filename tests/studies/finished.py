"""A study that ran on a folder of logs: what it wrote and returned."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from offpeak.executor import LocalProcesses
from offpeak.report_tables import Report
from offpeak_studies.harness import JOURNAL, Progress, StudyOrder


@dataclass(frozen=True)
class Finished:
    """The logs of a study, its journal, its report and its progress."""

    logs: Path
    lines: tuple[str, ...]
    report: Report
    progress: tuple[tuple[int, int], ...]


def finish(
    study: Callable[[StudyOrder, Progress], Report],
    logs: Path,
    out: Path,
    *,
    replays: int = 1,
) -> Finished:
    """Run a study to its end."""
    progress: list[tuple[int, int]] = []
    order = StudyOrder(logs, out, replays=replays, seed=3, executor=LocalProcesses(1))
    report = study(order, lambda done, total: progress.append((done, total)))
    lines = (out / JOURNAL).read_text().splitlines(keepends=True)
    return Finished(logs, tuple(lines), report, tuple(progress))
