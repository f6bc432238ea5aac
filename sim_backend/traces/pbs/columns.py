"""From runs to the columns that all accounting logs share."""

from collections.abc import Iterable, Mapping

import numpy as np

from offpeak.jobs import Int64
from sim_backend.traces.pbs.run import Run
from sim_backend.traces.records import Coded, Records


def records_of(runs: list[Run], numbers: list[int], names: Mapping[int, str]) -> Records:
    """Return the runs, in the order of their records, as columns; `numbers` are theirs, `names` by number."""
    return Records(
        job_id=_column(numbers),
        queued_s=_column(_queued_s(runs)),
        start_s=_column(run.start_s for run in runs),
        runtime_s=_column(run.runtime_s for run in runs),
        estimate_s=_column(run.asked_s for run in runs),
        nodes=_column(run.places.nodes for run in runs),
        processors=_column(run.places.processors for run in runs),
        user=_coded(run.who.user for run in runs),
        group=_coded(run.who.group for run in runs),
        queue=_coded(run.who.queue for run in runs),
        application=_coded(run.who.application for run in runs),
        energy_j=np.array([run.energy_j or np.nan for run in runs], np.float64),
        job_names=names,
    )


def _queued_s(runs: list[Run]) -> Iterable[int]:
    """Yield when each run could have started: not before the same job's run before it was over."""
    over_s: dict[bytes, int] = {}
    for run in runs:
        # Clocks that are set back can make a job start before it was queued.
        yield min(max(run.queued_s, over_s.get(run.job, 0)), run.start_s)
        over_s[run.job] = run.start_s + run.runtime_s


def _coded(names: Iterable[bytes]) -> Coded:
    codes = {b"": -1}
    code = _column(codes.setdefault(name, len(codes) - 1) for name in names)
    return Coded(code, tuple(name.decode(errors="replace") for name in codes if name))


def _column(values: Iterable[int]) -> Int64:
    return np.fromiter(values, np.int64)
