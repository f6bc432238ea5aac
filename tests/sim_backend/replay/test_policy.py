"""Policies by name, and the rules that the settings make of them."""

from dataclasses import fields, replace

import pytest

from offpeak.errors import BadInput
from offpeak.model.node_class_file import bundled_node_classes
from offpeak.plugin.window_policy import ARRIVAL, BUILT_IN_BY_NAME, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE
from offpeak.settings.replay import PowerSettings, SchedulingSettings
from offpeak.sim_backend.engine.rules import (
    BEST_FIT,
    CONSERVATIVE,
    EASY,
    EXACT_RUNTIME,
    FCFS,
    FIRST_FIT,
    PREDICTED_RUNTIME,
    USER_ESTIMATE,
    SchedulingRules,
)
from offpeak.sim_backend.replay.policy import DISCIPLINES, parse_policy

pytestmark = pytest.mark.quick

DEFAULTS = SchedulingSettings()


def test_the_help_names_all_policies_and_node_classes() -> None:
    docs = {row.name: row.metadata["doc"] for row in (*fields(SchedulingSettings), *fields(PowerSettings))}
    assert f": {', '.join((*DISCIPLINES, *BUILT_IN_BY_NAME))}, or" in docs["policies"]
    assert f"({', '.join(bundled_node_classes())})" in docs["node_class"]


@pytest.mark.parametrize(
    ("name", "discipline", "window_policy"),
    [
        ("fcfs", FCFS, ARRIVAL),
        ("easy", EASY, ARRIVAL),
        ("conservative", CONSERVATIVE, ARRIVAL),
        ("first-fit", FIRST_FIT, ARRIVAL),
        ("best-fit", BEST_FIT, ARRIVAL),
        ("bff", FIRST_FIT, ARRIVAL),
        ("bbf", BEST_FIT, ARRIVAL),
        ("greedy", EASY, GREEDY),
        ("knapsack", EASY, KNAPSACK),
        ("greedy-slide", EASY, GREEDY_SLIDE),
        ("fcfs+greedy", FCFS, GREEDY),
        ("bbf+knapsack-slide", BEST_FIT, KNAPSACK_SLIDE),
        ("conservative+knapsack", CONSERVATIVE, KNAPSACK),
    ],
)
def test_a_name_means_a_discipline_and_a_window_policy(name, discipline, window_policy):
    policy = parse_policy(name, DEFAULTS)
    assert policy.name == name
    assert (policy.rules.discipline, policy.rules.policy) == (discipline, window_policy)
    assert policy.window_policy.code == window_policy


def test_the_defaults():
    policy = parse_policy("easy", DEFAULTS)
    day_s = 24 * 3600
    assert policy.rules == SchedulingRules(EASY, ARRIVAL, 20, 0, day_s, USER_ESTIMATE, pass_per_event=False)
    assert not policy.kill_at_estimate


@pytest.mark.parametrize(
    ("estimates", "code"), [("user", USER_ESTIMATE), ("exact", EXACT_RUNTIME), ("predicted", PREDICTED_RUNTIME)]
)
def test_the_settings_become_rules(estimates, code):
    settings = replace(DEFAULTS, window=7, period_s=30, max_postponement_s=60, estimates=estimates)
    assert parse_policy("greedy", settings).rules == SchedulingRules(
        EASY, GREEDY, 7, 30, 60, code, pass_per_event=False
    )


def test_with_a_pass_per_event_jobs_end_at_their_estimate():
    policy = parse_policy("easy", replace(DEFAULTS, passes="event"))
    assert policy.rules.pass_per_event
    assert policy.kill_at_estimate
    assert parse_policy("easy", replace(DEFAULTS, kill_at_estimate=True)).kill_at_estimate


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("esay", "did you mean easy?"),
        ("greddy", "did you mean greedy?"),
        ("GREEDY", "did you mean greedy?"),
        ("fcfs+knapsak", "did you mean knapsack?"),
    ],
)
def test_an_unknown_policy_names_the_nearest(name, hint):
    with pytest.raises(BadInput, match=f"^unknown policy '{name.replace('+', '[+]')}'$") as error:
        parse_policy(name, DEFAULTS)
    assert error.value.hint == f"{hint} (two can be joined: fcfs+greedy)"


@pytest.mark.parametrize(
    "name", ["", "+", "easy+", "+greedy", "greedy+fcfs", "fcfs+easy", "easy+easy+greedy", "easy+fast"]
)
def test_policy_that_is_no_discipline_plus_window_policy_is_unknown(name):
    with pytest.raises(BadInput, match=r"^unknown policy") as error:
        parse_policy(name, DEFAULTS)
    assert "fcfs+greedy" in error.value.hint


@pytest.mark.parametrize("name", ["knapsack", "fcfs+knapsack-slide"])
def test_a_knapsacks_window_has_at_most_64_jobs(name):
    assert parse_policy(name, replace(DEFAULTS, window=64)).rules.window == 64
    with pytest.raises(BadInput, match="a window of 65 jobs is too large") as error:
        parse_policy(name, replace(DEFAULTS, window=65))
    assert error.value.hint.endswith("--window 64")


def test_any_other_window_may_be_larger():
    assert parse_policy("greedy", replace(DEFAULTS, window=1000)).rules.window == 1000
