"""The sentence that people remember."""

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import pytest

from offpeak.display import duration_text
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.comparison.outcome import PolicyOutcome
from offpeak.sim_backend.comparison.replications import ReplicationInterval, ReplicationSpread, replay_often
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.ui.report.page import answer
from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.tables import savings_section

pytestmark = pytest.mark.quick

Make = Callable[..., ReportSubject]

BASELINE = PolicyOutcome(
    policy="easy", jobs=9, mean_wait_s=7870, mean_response_s=9000, mean_bounded_slowdown=5, utilization=0.5,
    mean_bounded_slowdown_by_delay=5, makespan_s=10**6, energy_kwh=1e6, idle_energy_kwh=1e5, unpriced_kwh=0,
    cost=205_678, currency="EUR", co2_kg=None, saving_pct=0, worst_postponement_s=0, worst_postponement_job_id=1,
    response_ratio=1, simulate_s=0.1,
)  # fmt: skip


def answer_of(subject: ReportSubject, *others: PolicyOutcome, spreads: tuple[ReplicationSpread, ...] = ()) -> str:
    comparison = replace(subject.comparison, outcomes=(BASELINE, *others))
    return answer(replace(subject, comparison=comparison, spreads=spreads))


def other(**figures: object) -> PolicyOutcome:
    cheaper = replace(BASELINE, policy="greedy", cost=204_444, saving_pct=0.6, mean_wait_s=6240, baseline=BASELINE)
    return replace(cheaper, worst_postponement_s=75_780, **figures)


def spread(low: float, high: float) -> ReplicationSpread:
    cost = ReplicationInterval(204_444, 204_000, 205_000)
    figures = {"saving_pct": ReplicationInterval(0.6, low, high), "cost": cost}
    differences = {"cost": ReplicationInterval(-1000, -1000 * high, -1000 * low)}
    return ReplicationSpread("greedy", 20, MappingProxyType(figures), MappingProxyType(differences))


def test_a_saving(subject: ReportSubject) -> None:
    assert answer_of(subject, other()) == (
        "With greedy, electricity would have cost 0.6 % less than with easy (1,234 of 205,678 EUR); "
        "the mean wait fell from 2:11 h to 1:44 h; the most delayed job started 21:03 h later."
    )


def test_the_cheapest_policy_is_named(subject: ReportSubject) -> None:
    dearer = other(policy="knapsack", cost=205_000)
    assert answer_of(subject, dearer, other()).startswith("With greedy, ")


@pytest.mark.parametrize(("cost", "text"), [(205_600, "(78.00 less of 205,678 EUR)"), (205_700, "(22.00 more of ")])
def test_hardly_any_difference(subject: ReportSubject, cost: float, text: str) -> None:
    saving_pct = 100 * (205_678 - cost) / 205_678
    sentence = answer_of(subject, other(cost=cost, saving_pct=saving_pct))
    assert sentence.startswith(f"With greedy, electricity would have cost nearly the same {text}")


def test_no_policy_is_cheaper(subject: ReportSubject) -> None:
    sentence = answer_of(subject, other(cost=207_678, saving_pct=-0.97, mean_wait_s=9000))
    assert sentence.startswith(
        "No policy would have been cheaper than easy: with greedy, electricity would have cost 1.0 % more "
        "(2,000 on top of 205,678 EUR); the mean wait rose from 2:11 h to 2:30 h; "
    )


def test_report_states_that_no_job_waits_longer(subject: ReportSubject) -> None:
    unchanged = replace(other(mean_wait_s=7870.4), worst_postponement_s=0)
    assert answer_of(subject, unchanged).endswith("; the mean wait stayed at 2:11 h; no job started later.")


def test_many_replays_tell_chance_from_effect(subject: ReportSubject) -> None:
    sentence = answer_of(subject, other(), spreads=(spread(0.51, 0.7),))
    assert ", a saving of 0.51 to 0.70 % in 19 of 20 replays; the mean" in sentence
    assert sentence.endswith(" Figures are means of 20 replays.")
    sentence = answer_of(subject, other(), spreads=(spread(-0.2, 0.7),))
    assert ", a difference that is not significant: it saves -0.20 to 0.70 % in 19 of 20 replays; the mean" in sentence


def test_the_headline_has_the_means_that_the_table_has(make: Make) -> None:
    """The replay of the log as it is lies elsewhere than the mean of replays: both places show the same one."""
    subject = make(300, "easy", "greedy")
    easy, greedy = spreads_of_three(subject)
    assert easy.figures["mean_wait_s"].mean != subject.comparison.outcomes[0].mean_wait_s
    subject = replace(subject, spreads=(easy, greedy))
    sentence, table = answer(subject), savings_section(subject)
    for figures in (easy.figures, greedy.figures):
        wait = duration_text(figures["mean_wait_s"].mean)
        assert wait in sentence
        assert wait in table
    assert f"{abs(greedy.figures['saving_pct'].mean):.1f} %" in sentence
    saved = abs(greedy.differences["cost"].mean)
    assert f"({saved:,.{0 if saved >= 100 else 2}f} of " in sentence


def spreads_of_three(subject: ReportSubject) -> tuple[ReplicationSpread, ...]:
    """Replay the subject's case three times, with shifts that move its means."""
    policies = tuple(parse_policy(policy.name, SchedulingSettings()) for policy in subject.policies)
    return replay_often(subject.prepared.case, policies, replays=3, seed=1)


def test_one_policy_alone(make: Make) -> None:
    sentence = answer(make(20, "easy"))
    assert sentence.startswith("Under easy the electricity of ")
    assert "--policy easy,greedy" in sentence


ASLEEP = {"asleep_share": 0.2, "idle_saved_pct": 83.25, "captured_pct": 93.0, "delayed_share": 0.33}


def test_the_cheapest_policy_that_lets_nodes_sleep_is_named(subject: ReportSubject) -> None:
    asleep = other(**ASLEEP, mean_sleep_delay_s=99.0)
    saved = "sleeping nodes would have saved 83.2 % of the idle energy (93 % of what was possible); "
    waits = "waiting for them would have held up 33 % of the jobs, these by 5 min on average, all jobs by 99 s."
    assert answer_of(subject, asleep).endswith(f" later. Its {saved}{waits}")
    assert answer_of(subject, other(policy="fcfs", cost=200_000), asleep).endswith(
        f" later. Under greedy, {saved}{waits}"
    )
    assert "sleeping" not in answer_of(subject, other(asleep_share=0.0))


def test_sleep_that_saves_nothing_is_reported(subject: ReportSubject) -> None:
    worse = other(**ASLEEP | {"idle_saved_pct": -3.0}, mean_sleep_delay_s=99.0)
    assert "sleeping nodes would have drawn 3.0 % more than idle ones; " in answer_of(subject, worse)


def test_how_long_jobs_were_held_up_is_the_mean_of_those_that_were(make: Make) -> None:
    subject = make(60, "easy", capacities=("timeout:5min",))
    (policy,) = subject.policies
    delay_s = policy.run.schedule.sleep_delay_s
    held_up_s = delay_s[delay_s > 0]
    assert len(held_up_s) < len(delay_s)
    assert f"these by {duration_text(float(held_up_s.mean()))} on average" in answer(subject)


def test_where_no_job_is_held_up_it_says_so(subject: ReportSubject) -> None:
    nobody = other(**ASLEEP | {"delayed_share": 0.0}, mean_sleep_delay_s=0.0)
    assert answer_of(subject, nobody).endswith("; no job would have waited for them.")


def test_one_policy_alone_that_lets_nodes_sleep(make: Make) -> None:
    sentence = answer(make(60, "easy", capacities=("timeout:5min",)))
    assert " would show what can be saved. Its sleeping nodes would have saved " in sentence
