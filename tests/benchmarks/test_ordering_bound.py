"""The bound of ordering: tiny samples against all their schedules, the recorded tables, and a repeated sample."""

from itertools import product

import numpy as np
import pytest
from study_tables import stored

from benchmarks.logs import trace_file
from benchmarks.ordering_bound import (
    BOUND_HEAD,
    DELAY_HEAD,
    ORDER_RULES,
    ORDERS,
    POLICY_HEAD,
    SEARCHED,
    TABLES,
    Slots,
    bound_table,
    check,
    delay_table,
    draw_sample,
    lagrangian,
    parts_of,
    policies_table,
    read_rows,
    replay_plan,
    ruin_and_recreate,
    saving,
    solve_exactly,
    solve_sample,
    starts_under,
)

STARTS = 6


def tiny_slots(seed: int, *, weighted: bool) -> Slots:
    """Return three or four jobs with six starts each on three nodes, one of which is taken at first."""
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(3, 5))
    first, length, size = rng.integers(1, 3, jobs), rng.integers(1, 4, jobs), rng.integers(1, 4, jobs)
    cost = rng.uniform(-2.0, 10.0, (jobs, STARTS))
    wait = np.arange(STARTS) - rng.integers(1, 4, jobs)[:, None].astype(np.float64)
    if weighted:
        wait *= (size * length)[:, None]
    free = np.full(int((first + length).max()) + STARTS, 3)
    free[: rng.integers(1, 4)] -= 1
    return Slots(first, length, size, cost, wait, free)


def allowed_schedules(slots: Slots) -> list[np.ndarray]:
    every = (np.array(starts) for starts in product(range(STARTS), repeat=len(slots.first)))
    return [chosen for chosen in every if is_allowed(slots, chosen)]


@pytest.mark.parametrize("weighted", [False, True])
def test_cp_sat_finds_the_best_of_all_schedules_and_the_bound_is_one(weighted: bool) -> None:
    found, solved = 0, 0
    for seed in range(12):
        slots = tiny_slots(seed, weighted=weighted)
        schedules, at = allowed_schedules(slots), np.arange(len(slots.first))
        if not schedules:
            continue
        best = min(float(slots.cost[at, chosen].sum()) for chosen in schedules)
        exact = solve_exactly(slots, schedules[0], 20.0)
        assert exact.upper == pytest.approx(best, abs=1e-4)
        assert exact.lower <= best + 1e-4
        bound = lagrangian(slots, schedules[0], 400)
        assert bound.lower <= best + 1e-9 <= bound.upper + 2e-9
        better = ruin_and_recreate(slots, schedules[0], max(bound.per_wait, 0.1), 3000, seed)
        check(slots, better)
        reached = float(slots.cost[at, better].sum())
        assert reached >= best - 1e-9
        found, solved = found + (reached <= best + 1e-9), solved + 1
    assert solved >= 6
    assert found >= solved // 2


def is_allowed(slots: Slots, chosen: np.ndarray) -> bool:
    try:
        check(slots, chosen)
    except SystemExit:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "header", "table"),
    [
        ("ordering/policies", POLICY_HEAD, policies_table),
        ("ordering/bound", BOUND_HEAD, bound_table),
        ("ordering/delays", DELAY_HEAD, delay_table),
    ],
)
def test_the_tables_are_those_of_the_record(name: str, header: tuple[str, ...], table) -> None:
    assert stored(name) == [list(header), *table(read_rows())]


@pytest.mark.thorough
def test_a_recorded_sample_comes_out_again() -> None:
    if not trace_file("KTH-SP2").exists():
        pytest.skip("no logs")
    recorded = {(row[2], row[7]): row[8:] for row in read_rows() if row[:2] == ["KTH-SP2", "1"]}
    sample = draw_sample("KTH-SP2", 1)
    easy_s = starts_under(sample, "easy")
    starts = {name: starts_under(sample, name) for name in ORDERS} | {"plan": replay_plan(sample)}
    for name, start_s in starts.items():
        _, saved_pct, wait_s = saving(sample, easy_s, name, start_s)
        assert recorded["policy", name] == [f"{saved_pct:.3f}", f"{wait_s:.0f}"]
    for rule in ORDER_RULES:
        solved = solve_sample(sample, easy_s, rule, easy_s)
        assert recorded[rule.name, "bound"][0] == f"{100 * (1 - solved.lower / sample.cost(easy_s)):.3f}"
        assert recorded[rule.name, "found"][0] == f"{saving(sample, easy_s, '', solved.start_s).saved_pct:.3f}"


def test_the_page_quotes_the_tables() -> None:
    rows = read_rows()
    page = " ".join((TABLES.parents[1] / "explanation" / "ordering.md").read_text().split())
    greedy, plan = policies_table(rows)[-1][3], policies_table(rows)[-1][5]
    assert f"{float(greedy):.1f} % over 60 samples" in page
    assert f"{float(greedy):.1f}" == f"{float(plan):.1f}"
    more = np.subtract(parts_of(rows, "policy", "plan"), parts_of(rows, "policy", "greedy"))
    error = float(more.std(ddof=1)) / len(more) ** 0.5
    assert f"the difference is {abs(more.mean()):.1f} points, with a standard error of {error:.2f}" in page
    searched = [row for row in rows if int(row[1]) < SEARCHED]
    found, by_search = (np.array(parts_of(searched, "mean wait", what)) for what in ("found", "CP-SAT found"))
    better = by_search - found
    assert f"in two of five cases within 20 s, by at most {better.max():.2f} points" in page
    assert (better > 0.001).sum() == 2
    bounds = (parts_of(searched, "mean wait", what) for what in ("bound", "CP-SAT bound"))
    assert all(ours < theirs for ours, theirs in zip(*bounds, strict=True))
    every = bound_table(rows)[-1]
    assert f"saves a median of {every[6].split()[0]} %" in page
    assert (
        f"The upper bound has a median of {every[7].split()[0]} %, and is {every[7].split()[-1][:-1]} % in one" in page
    )
    assert f"{every[4].split()[0]} % are left, with a bound of {every[5].split()[0]} %" in page
    day, days = delay_table(rows)[8:10]
    assert f"for a day, begin times save {day[5]} %, with greedy {day[6]} %**: {day[8]} % of the best" in page
    assert f"begin times save {days[5]} %, with greedy {days[6]} %, {days[8]} % of it" in page
    assert f"{delay_table(rows)[7][5]} % by begin times, even if all jobs" in page
