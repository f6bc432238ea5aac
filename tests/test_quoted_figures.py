"""Sentences on the pages quote the stored tables of figures as they are."""

import numpy as np
import study_tables

from benchmarks import coverage, next_half, order_by_class, ordering_bound, place_bound, savings

Rows = list[dict[str, str]]


def rows_of(name: str, **where: str) -> Rows:
    """Return the rows of a stored table with these values; of columns with the same name the first counts."""
    headers, *rows = study_tables.stored(name)
    found = [dict(zip(reversed(headers), reversed(row), strict=True)) for row in rows]
    return [row for row in found if all(row[column] == value for column, value in where.items())]


def numbers(rows: Rows, column: str) -> list[float]:
    """Return the figures of a column without their ranges; empty cells are left out."""
    return [float(row[column].split()[0].replace(",", "")) for row in rows if row[column]]


def span(values: list[float], decimals: int) -> str:
    low, high = (f"{each(values):.{decimals}f}" for each in (min, max))
    return low if low == high else f"{low} to {high}"


def page(name: str) -> str:
    return " ".join((study_tables.DOCS / name).read_text(encoding="utf-8").split())


def test_profit_and_cooling() -> None:
    gains, makespans = rows_of("profit-cooling/gains"), rows_of("profit-cooling/makespans")
    solvers = rows_of("profit-cooling/solvers")
    over_rule, over_strict = (span(numbers(gains, each), 1) for each in ("over it, %", "over strict EST, %"))
    possible = span(numbers(gains, "no plan"), 1)
    full = [
        100 * (100 / each - 1) for each in numbers(rows_of("profit-cooling/solvers", solver="strict EST"), "of full")
    ]
    shorter, paper = numbers(makespans, "shorter, %"), float(makespans[0]["paper, %"])
    text = page("science/profit-cooling.md")
    assert f"at most {possible} % are possible, and planning gains {over_rule} %." in text
    assert f"it gains {over_strict} % of the possible {span(full, 1)} %" in text
    assert f"The best search is {span(shorter, 1)} % shorter than the best rule (the paper: {paper:.2f} %)" in text
    days = [float(row["makespan"]) for row in solvers if not row["solver"].startswith(("strict WT", "strict Profit"))]
    assert f"the last job ends after {span(days, 0)} days" in text
    gaps = span(numbers(rows_of("profit-cooling/solvers", solver="multi"), "median gap"), 2)
    reached = ["none", "one", "two", "three", "all"][sum(each >= paper for each in shorter)]
    assert sum(numbers(solvers, "violations")) == 0
    quoted = (
        f"violations in {sum(numbers(solvers, 'plans')):,.0f} plans | {over_rule} % (at most {possible} possible); "
        f"{over_strict} % (at most {span(full, 1)} possible); {span(shorter, 1)} %; MultiSearch {gaps} %; 0 |"
    )
    assert quoted in page("benchmarks.md")
    assert f"reached in {reached} of four scenarios" in page("benchmarks.md")


def test_the_paper_of_dynamic_pricing() -> None:
    text = page("science/dynamic-pricing.md")

    def factors(log: str, policies: tuple[str, ...]) -> str:
        rows = [row for row in rows_of("dynamic-pricing/paper", **{"paper's log": log}) if row["policy"] in policies]
        found = [
            float(row[f"paper {prices}"]) / numbers([row], f"prices {prices}")[0]
            for row in rows
            for prices in ("1:3", "1:4", "1:5")
        ]
        return span(found, 0)

    both, greedy, knapsack = (
        factors("SDSC-Blue", ("greedy", "knapsack")),
        factors("ANL-BGP", ("greedy",)),
        factors("ANL-BGP", ("knapsack",)),
    )
    assert f"on SDSC by a factor of {both}, on ANL-BGP by {greedy} with greedy and by {knapsack} with knapsack" in text
    most = max(numbers(rows_of("dynamic-pricing/letter"), "saved"))
    assert f"## Leaving nodes idle saves up to {most:.0f} %" in text
    intrepid = [row for row in rows_of("dynamic-pricing/frequency") if row["log"].startswith("ANL-Intrepid")]
    saved = dict(zip((row["period"] for row in intrepid), numbers(intrepid, "knapsack"), strict=True))
    first, most, last = (saved[period] for period in ("10 s", "40 min", "60 min"))
    assert f"(knapsack's is {first:.1f} % at 10 s, {most:.1f} % at 40 minutes and {last:.1f} % at an hour)" in text
    implied = [sorted(row.items()) for row in rows_of("dynamic-pricing/implied", **{"paper's log": "ANL-BGP"})]
    apart = [
        row for row in map(dict, implied) if abs(float(row["from 1:3 and 1:4"]) - float(row["from 1:3 and 1:5"])) > 0.03
    ]
    assert [(row["power"], row["policy"]) for row in apart] == [("1:2", "greedy"), ("1:4", "knapsack")]
    first, second = ((row["from 1:3 and 1:4"], row["from 1:3 and 1:5"]) for row in apart)
    assert f"Greedy at 1:2 ({' and '.join(first)}) and knapsack at 1:4 ({' and '.join(second)}) are not." in text


def test_break_even() -> None:
    def column(policy: str, name: str) -> list[float]:
        return numbers(rows_of("sleeping/policies", policy=policy), name)

    def against(name: str) -> list[tuple[float, float]]:
        return list(zip(column("break-even", name), column("timeout:10min", name), strict=True))

    points = [ours - theirs for ours, theirs in against("saved [%]")]
    cycles, delay = ([100 * (ours / theirs - 1) for ours, theirs in against(name)] for name in ("cycles", "delay [s]"))
    quoted = (
        f"break-even saves {span(points, 0)} points more of the idle energy, with {span(cycles, 0)} % more cycles and "
        f"{span(delay, 0)} % more boot delay"
    )
    assert quoted in page("science/sleeping.md")
    hours = [each / 3600 for each in column("ols:1h:5", "longer [s]")]
    assert min(hours) >= 1
    assert max(hours) < 3


def test_scores() -> None:
    against = numbers(rows_of("waits/scores"), "against published")
    text = page("science/queue-waits.md")
    percent = [100 * (1 - each) for each in against]
    assert f"better than the published method on every log** with waiting jobs, by {span(percent, 0)} %" in text
    worst = max(numbers(rows_of("waits/scores"), "against best"))
    assert f"It is at most {100 * (worst - 1):.0f} % worse than the best of its members" in text
    (curie,) = rows_of("waits/intervals", log="CEA-curie")
    assert f"the share is {curie['arbiter']} %, and a prediction of zero reaches {curie['nobody waits']} %" in text
    assert f"divided by that of the published method | {span(against, 2)} |" in page("benchmarks.md")
    texts = []
    for log in ("KTH-SP2-1996", "ANL-Intrepid"):
        ((trees,), (similar,)) = (rows_of("jobs/scores", log=log), rows_of("jobs/choice", log=log))
        ours, theirs = trees["boosted"], similar["similar jobs"]
        change = 100 * (numbers([trees], "boosted")[0] / numbers([similar], "similar jobs")[0] - 1)
        texts.append(f"{abs(change):.0f} % {'smaller' if change < 0 else 'larger'}")
        assert f"on {log} ({ours} and {theirs} s)" in page("science/predictors-of-jobs.md")
    assert texts == ["6 % smaller", "23 % larger"]


def test_weeks_of_ols() -> None:
    saved = {
        period: numbers(rows_of("online-simulation/servers", policy=f"ols:{period}"), "saved [%]")
        for period in ("7d", "1d")
    }
    weekly, daily = (span(each, 0) for each in saved.values())
    quoted = f"Weekly OLS saves {weekly} % of the idle energy and daily OLS {daily} %"
    assert quoted in page("science/online-simulation.md")


def test_savings_of_the_readme() -> None:
    found, readme = savings.recorded(), page("../README.md")
    for policy in (savings.SLEEP, *savings.ORDERS):
        rows = found["SDSC-BLUE", policy]
        assert f"{savings.over([row.saving_pct for row in rows]).text(2)} %" in readme, policy
        assert savings.waits_text(rows) in readme, policy
    sleep = found["SDSC-BLUE", savings.SLEEP]
    assert f"{savings.hours(sleep[0].easy_wait_s)} h without it" in readme
    assert f"{len(sleep)} weeks" in readme
    medians = [
        savings.over([row.saving_pct for row in rows]).median
        for (_, policy), rows in found.items()
        if policy == savings.SLEEP
    ]
    assert f"{min(medians):.0f} to {max(medians):.0f} %" in readme
    assert readme.index("idle nodes sleep") < readme.index("greedy order")
    lines = (study_tables.DOCS / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    assert {*savings.table(found), *coverage.table(coverage.recorded())} <= set(lines)


def test_orders_by_node_class() -> None:
    found = order_by_class.recorded()
    lines = (study_tables.DOCS / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    assert set(order_by_class.table(found)) <= set(lines)
    greedy = {name: savings.over(saved) for (name, order), saved in found.items() if order == "greedy"}
    saves = span([each.median for each in greedy.values()], 2)
    assert f"greedy saves {saves} %, and not significantly on `server`, the default" in page("../README.md")
    assert [name for name, each in greedy.items() if each.low <= 0] == ["server"]


def test_the_next_half() -> None:
    promises = next_half.recorded()
    lines = (study_tables.DOCS / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    assert set(next_half.table(promises)) <= set(lines)
    ranged = [each for each in promises if each.weeks >= next_half.LEAST_WEEKS]
    (short,) = (each for each in promises if each not in ranged and each.policy == "timeout:10min")
    small = [each.achieved for each in ranged if each.policy.startswith("T1")]
    text = page("benchmarks.md")
    assert f"All together {sum(each.is_kept for each in ranged)} of {len(ranged)} lie in their range" in text
    assert f"saved {short.promised:.2f} % in the first half and {short.achieved:.2f} % in the second" in text
    assert f"it saves {min(small):.2f} to {max(small):.2f} % in the second halves" in text


def test_ordering() -> None:
    rows = ordering_bound.read_rows()
    text = page("science/ordering.md")
    for name, head, table in (
        ("policies", ordering_bound.POLICY_HEAD, ordering_bound.policies_table),
        ("bound", ordering_bound.BOUND_HEAD, ordering_bound.bound_table),
        ("delays", ordering_bound.DELAY_HEAD, ordering_bound.delay_table),
    ):
        assert study_tables.stored(f"ordering/{name}") == [list(head), *table(rows)]
    greedy, plan = ordering_bound.policies_table(rows)[-1][3], ordering_bound.policies_table(rows)[-1][5]
    assert f"{float(greedy):.1f} % over 60 samples" in text
    assert f"{float(greedy):.1f}" == f"{float(plan):.1f}"
    more = np.subtract(
        ordering_bound.parts_of(rows, "policy", "plan"), ordering_bound.parts_of(rows, "policy", "greedy")
    )
    error = float(more.std(ddof=1)) / len(more) ** 0.5
    assert f"the difference is {abs(more.mean()):.1f} points, with a standard error of {error:.2f}" in text
    searched = [row for row in rows if int(row[1]) < ordering_bound.SEARCHED]
    found, by_search = (
        np.array(ordering_bound.parts_of(searched, "mean wait", what)) for what in ("found", "CP-SAT found")
    )
    better = by_search - found
    assert f"in two of five cases within 20 s, by at most {better.max():.2f} points" in text
    assert (better > 0.001).sum() == 2
    bounds = (ordering_bound.parts_of(searched, "mean wait", what) for what in ("bound", "CP-SAT bound"))
    assert all(ours < theirs for ours, theirs in zip(*bounds, strict=True))
    every = ordering_bound.bound_table(rows)[-1]
    assert f"saves a median of {every[6].split()[0]} %" in text
    assert (
        f"The upper bound has a median of {every[7].split()[0]} %, and is {every[7].split()[-1][:-1]} % in one" in text
    )
    assert f"{every[4].split()[0]} % are left, with a bound of {every[5].split()[0]} %" in text
    day, days = ordering_bound.delay_table(rows)[8:10]
    assert f"for a day, begin times save {day[5]} %, with greedy {day[6]} %**: {day[8]} % of the best" in text
    assert f"begin times save {days[5]} %, with greedy {days[6]} %, {days[8]} % of it" in text
    assert f"{ordering_bound.delay_table(rows)[7][5]} % by begin times, even if all jobs" in text


def test_place() -> None:
    rows = place_bound.read_rows(place_bound.RECORD)
    text = page("science/federation-studies.md")
    for name, head, table in (
        ("bound", place_bound.BOUND_HEAD, place_bound.bound_table),
        ("saved", place_bound.SAVED_HEAD, place_bound.saved_table),
        ("share", place_bound.SHARE_HEAD, place_bound.share_table),
    ):
        assert study_tables.stored(f"federation/place-{name}") == [list(head), *table(rows)]
    bounds = place_bound.bound_table(rows)
    no_limit, place, found, same_wait = (span_of([row[at].split()[0] for row in bounds[:-1]]) for at in range(2, 6))
    assert f"the best placement saves {place} % (medians of the years)" in text
    assert f"With nodes without limit it saves {no_limit} %" in text
    assert f"with the same mean wait the bound is {same_wait} %, and schedules that save {found} % are found" in text
    assert f"place alone saves {bounds[-1][3].split()[0]} %**, and {bounds[-1][2].split()[0]} % with nodes" in text
    assert "the schedules that were found save a third to half of the bound on the cost" in text
    assert all(0.3 < float(row[4].split()[0]) / float(row[5].split()[0]) < 0.55 for row in bounds[:-1])
    found, same_wait = (bounds[-1][at].split()[0] for at in (4, 5))
    assert f"With the same mean wait {found} % are found, and {same_wait} % are the bound." in text
    saved, share = (
        {row[0]: row[1:] for row in table(rows)} for table in (place_bound.saved_table, place_bound.share_table)
    )
    mcmf, eca, fastest = saved["mcmf"], saved["eca-queue"], saved[place_bound.REFERENCE]
    assert f"`mcmf` saves {span_of(mcmf[3:8])} % of the cost and {mcmf[8]} % of the CO2**" in text
    assert f"{span_of(share['mcmf'][:5])} and {share['mcmf'][5]} % of what its own wait allows" in text
    assert (
        f"jobs wait {mcmf[1]} h for cost and {mcmf[2]} h for CO2, under `fastest` {fastest[1]} and {fastest[2]} h"
        in text
    )
    assert f"{span_of(eca[3:8])} % of the cost and {eca[8]} % of the CO2, at waits of {eca[1]} and {eca[2]} h" in text
    known, run_times = share["mcmf, electricity known"], share["mcmf, run times known, too"]
    assert f"its shares are {span_of(known[:5])} % of the cost and {known[5]} % of the CO2" in text
    assert f"with the run times they are {span_of(run_times[:5])} and {run_times[5]} %" in text
    captured = f"{span_of(share['mcmf'][:5])} %; {share['mcmf'][5]} %"
    assert f"five years of prices; CO2 | {captured} |" in page("benchmarks.md")
    assert min(float(wait) for wait in saved["mcmf, w_t 0"][1:3]) > 48


def span_of(cells: list[str]) -> str:
    """Return the least and the greatest of numbers as they are written."""
    ordered = sorted(cells, key=float)
    return f"{ordered[0]} to {ordered[-1]}"
