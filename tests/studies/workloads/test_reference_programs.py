"""The generated logs are distributed as the outputs of the models' own programs (m_lublin99.c, est_model.cc).

Independent draws are compared by two-sample tests: the median of the p-values for several seeds has to be above the
significance of 1 %. What one log has only one of (its share of batch jobs, its daily cycle, its popular limits) must
lie within the middle 99 % of what many of our logs have.
"""

from pathlib import Path

import numpy as np
import pytest
import scipy
from numpy.typing import ArrayLike

from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.sim_backend.traces.swf.read import read_swf
from offpeak_studies.workloads.generate import mixed_jobs
from offpeak_studies.workloads.lublin_model import (
    BATCH,
    INTERACTIVE,
    TYPELESS,
    JobDemand,
    Lublin,
    draw_arrivals,
    draw_demand,
    even_s,
    half_hour_weights,
)
from offpeak_studies.workloads.tsafrir import (
    EstimateCounts,
    assigned_s,
    draw_estimate_counts,
    draw_ranks,
    head_values_s,
    tsafrir_estimates_s,
)

SIGNIFICANCE = 0.01
SEEDS = range(5)
MANY = range(200)
LIMIT_S = 18 * 3600


def log_of(shared: Path, name: str) -> Jobs:
    return read_swf(shared / "data" / "traces" / f"{name}.swf.gz").jobs


@pytest.fixture(scope="module")
def typeless(shared: Path) -> Jobs:
    """10,000 jobs of INCLUDE_JOBS_TYPE 0 with UHI 8 and UMED 5.5: 256 nodes."""
    return log_of(shared, "lublin_256")


@pytest.fixture(scope="module")
def mixed(shared: Path) -> Jobs:
    """1,000 jobs of the program as published: INCLUDE_JOBS_TYPE 1, 128 nodes."""
    return log_of(shared, "lublin99_ref_1000jobs")


@pytest.fixture(scope="module")
def with_limits(shared: Path) -> Jobs:
    """The same jobs with limits by the program as published, the longest 18 h, at which it cut three run times."""
    return log_of(shared, "lublin99_tsafrir05_1000jobs")


def similar(p_values: list[float]) -> bool:
    return bool(np.median(p_values) > SIGNIFICANCE)


def is_usual(one: float, many: ArrayLike) -> bool:
    low, high = np.quantile(many, [SIGNIFICANCE / 2, 1 - SIGNIFICANCE / 2])
    return bool(low <= one <= high)


def demands(model: Lublin, machine_size: int) -> list[JobDemand]:
    return [draw_demand(20_000, model, machine_size, np.random.default_rng(seed)) for seed in SEEDS]


def sizes_p(theirs: Int64, ours: Int64) -> float:
    """Compare powers of two one by one, and all other sizes together, by chi-square."""
    other = 0
    counts = [np.where(np.log2(size) % 1 == 0, size, other) for size in (theirs, ours)]
    table = np.array([[np.count_nonzero(count == size) for size in np.unique(counts[1])] for count in counts])
    expected = table[1] * len(theirs) / len(ours)
    return float(scipy.stats.chi2_contingency(table[:, expected >= 5]).pvalue)


def ks_p(theirs: ArrayLike, ours: ArrayLike) -> float:
    return float(scipy.stats.ks_2samp(theirs, ours, method="asymp").pvalue)


def check_demand(theirs: Jobs, model: Lublin, machine_size: int) -> None:
    ours = demands(model, machine_size)
    assert similar([sizes_p(theirs.size, demand.size) for demand in ours])
    assert similar([ks_p(theirs.size, demand.size) for demand in ours])
    assert similar([ks_p(theirs.runtime_s, demand.runtime_s) for demand in ours])
    assert similar([ks_p(theirs.size * theirs.runtime_s, demand.size * demand.runtime_s) for demand in ours])


def without_drift(submit_s: Int64) -> Float64:
    """Put back the half second that the program loses at each job."""
    return submit_s + 0.5 * np.arange(1, len(submit_s) + 1)


def even_gaps_s(submit_s: Float64, model: Lublin) -> Float64:
    """Return the gaps without the daily cycle: independent draws, if the cycle is the model's."""
    weights = half_hour_weights(model.half_hour)
    return np.diff([even_s(float(one_s), weights) for one_s in submit_s])


def check_gaps(submit_s: Int64, model: Lublin) -> None:
    theirs = even_gaps_s(without_drift(submit_s), model)
    ours = [np.diff(draw_arrivals(20_000, model, np.random.default_rng(seed)).even_s) for seed in SEEDS]
    assert similar([ks_p(theirs, gaps_s) for gaps_s in ours])


def test_typeless_jobs(typeless: Jobs) -> None:
    assert (typeless.queue == 0).all()
    check_demand(typeless, TYPELESS, 256)
    check_gaps(typeless.submit_s, TYPELESS)


@pytest.mark.parametrize(("queue", "model"), [(0, INTERACTIVE), (1, BATCH)], ids=["interactive", "batch"])
def test_each_kind_of_a_mixed_log(mixed: Jobs, queue: int, model: Lublin) -> None:
    of_kind = mixed.take(mixed.queue == queue)
    check_demand(of_kind, model, 128)
    check_gaps(of_kind.submit_s, model)


def test_how_many_of_a_mixed_log_are_batch_jobs_and_how_long_it_lasts(mixed: Jobs) -> None:
    ours = [mixed_jobs(1000, machine_size=128, seed=seed) for seed in MANY]
    assert is_usual((mixed.queue == 1).sum(), [(jobs.queue == 1).sum() for jobs in ours])
    assert is_usual(mixed.submit_s[-1], [jobs.submit_s[-1] for jobs in ours])


def hours_distance(submit_s: ArrayLike) -> float:
    """Return how far the hours of submission are from the model's daily cycle, as a chi-square of shares."""
    hour = np.bincount(np.asarray(submit_s, np.int64) // 3600 % 24, minlength=24) / np.size(submit_s)
    cycle = half_hour_weights(TYPELESS.half_hour).reshape(24, 2).mean(axis=1) / 24
    return float(((hour - cycle) ** 2 / cycle).sum())


def test_the_program_runs_ahead_of_the_daily_cycle_and_we_do_not(typeless: Jobs) -> None:
    """It adds gaps up in whole seconds, so that jobs come ever earlier in the day, 1.4 h after 10,000 of them."""
    ours = [hours_distance(draw_arrivals(10_000, TYPELESS, np.random.default_rng(seed)).submit_s()) for seed in MANY]
    assert not is_usual(hours_distance(typeless.submit_s), ours)
    assert is_usual(hours_distance(without_drift(typeless.submit_s)), ours)


def counted(estimate_s: Int64) -> EstimateCounts:
    return EstimateCounts(*np.unique(estimate_s, return_counts=True))


def test_as_many_jobs_ask_for_the_same_limits(with_limits: Jobs) -> None:
    """Which values, and how many jobs the most and the least popular ones have, is not left to chance."""
    theirs, ours = counted(with_limits.estimate_s), draw_estimate_counts(1000, LIMIT_S, np.random.default_rng(1))
    np.testing.assert_array_equal(ours.value_s, theirs.value_s)
    np.testing.assert_array_equal(np.sort(ours.jobs), np.sort(theirs.jobs))


def test_the_popular_limits_of_the_program_are_popular_in_some_log_of_ours(with_limits: Jobs) -> None:
    requested = counted(with_limits.estimate_s)
    jobs = dict(zip(requested.value_s.tolist(), requested.jobs.tolist(), strict=True))
    head = [jobs[value_s] for value_s in head_values_s(LIMIT_S)]
    ranks = np.argsort(np.argsort(-np.array(head), kind="stable")) + 1
    drawn = np.array([draw_ranks(np.random.default_rng(seed)) for seed in range(1000)])
    assert (drawn == ranks).any(axis=0).all()


def test_limits_are_as_long_and_as_much_too_long(with_limits: Jobs) -> None:
    run_s, theirs = with_limits.runtime_s, with_limits.estimate_s
    ours = [tsafrir_estimates_s(run_s, longest_s=LIMIT_S, rng=np.random.default_rng(seed)) for seed in MANY]
    for quantile in (0.1, 0.25, 0.5, 0.75):
        assert is_usual(np.quantile(theirs, quantile), [np.quantile(limit_s, quantile) for limit_s in ours])
    assert is_usual(theirs.mean(), [limit_s.mean() for limit_s in ours])
    assert is_usual(np.median(theirs / run_s), [np.median(limit_s / run_s) for limit_s in ours])


def test_the_same_limits_are_given_to_jobs_alike(with_limits: Jobs) -> None:
    run_s, theirs = with_limits.runtime_s, with_limits.estimate_s
    assert (theirs >= run_s).all()
    ours = [assigned_s(run_s, counted(theirs), np.random.default_rng(seed)) for seed in MANY]
    assert similar([ks_p(theirs / run_s, limit_s / run_s) for limit_s in ours[: len(SEEDS)]])
    correlations = [scipy.stats.spearmanr(limit_s, run_s).statistic for limit_s in ours]
    assert is_usual(scipy.stats.spearmanr(theirs, run_s).statistic, correlations)
