"""What jobs are expected to draw and how long to run: declared, learned, or by their nodes; kept over restarts."""

import time
from pathlib import Path

import numpy as np
import pytest
from account_jobs import job
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput, BadSetting, CannotWrite
from offpeak.ledger.rows import JobUse
from offpeak.model.node_class import JOB_UTILISATION
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.predictors import recent_errors
from offpeak.predictors.choice import ChoiceRule, ChosenErrors
from offpeak.services.accounts import job_forecasts as kept_predictor
from offpeak.services.accounts.ended_jobs import EndedJob
from offpeak.services.accounts.job_draws import (
    ASSUMED,
    JobDraw,
    draw_by_class,
    find_declared_draw,
    find_node_kinds,
    parse_declared_draws,
    read_declared_draws,
)
from offpeak.services.accounts.job_forecasts import JobPowers, RunTimes, job_columns
from offpeak.services.accounts.job_use import BookedJob
from offpeak.settings.replay import PowerSettings

ENOUGH = ChoiceRule().least
SERVER = bundled_node_class("server")


def ran(number: str, node_w: float, *, measured: float = 1.0, **other: object) -> BookedJob:
    """A job that ran for an hour."""
    done = job(number, JobState.ENDED, start_s=0, end_s=3600, **other)
    use = JobUse(number, 0, 3600, done.user, done.account, "batch", done.hosts, node_w * 3600 * done.nodes, None, "EUR")
    return BookedJob(EndedJob(done, 3600), use, measured)


def node(name: str, *partitions: str, cpus: int = 8) -> Node:
    return Node(
        name, "idle", NodeUse.FREE, PowerState.ON, False, False, True, False, False, "", "", None,
        partitions, (), cpus, 0, 1024, None, None,
    )  # fmt: skip


KINDS = find_node_kinds(
    [node("n1", "batch"), node("n2", "batch", "gpu"), node("n3", "dark")], {"n1": SERVER, "n2": SERVER}.get
)


def pending(number: str, **other: object) -> Job:
    return job(number, JobState.PENDING, start_s=None, hosts="", **other)


def test_without_history_the_kind_of_nodes_decides() -> None:
    busy_w = SERVER.running_w(JOB_UTILISATION)
    jobs = [
        pending("1"),
        pending("2", whole_nodes=False, cpus=2),
        pending("3", partitions=("none", "gpu")),
        pending("4", partitions=("dark",)),
        pending("5", partitions=("none",)),
    ]
    assert JobPowers().of(jobs, KINDS, at_s=0) == {
        "1": JobDraw(busy_w, "node class server"),
        "2": JobDraw(busy_w / 4, "node class server", 0.25),
        "3": JobDraw(busy_w, "node class server"),
        "4": ASSUMED,
        "5": ASSUMED,
    }
    assert JobPowers().of([], KINDS, at_s=0) == {}


def learn_watched(powers: JobPowers, booked: list[BookedJob], *, at_s: int = 3600) -> None:
    """Forecast jobs before they end, as the agent does, and learn them."""
    powers.of([done.ended.job for done in booked], KINDS, at_s=at_s)
    powers.learn(booked, at_s=at_s)


def test_jobs_of_the_same_user_and_name_tell_once_they_did_better_than_the_nodes() -> None:
    powers = JobPowers()
    powers.learn([ran("1", 400.0, name="hot_1"), ran("2", 100.0, name="cold"), ran("3", 9e9, measured=0.2)], at_s=3600)
    assert powers.of([pending("4", name="hot_27")], KINDS, at_s=4000)["4"].basis == "node class server"
    assert powers.errors == ChosenErrors("node class", None, "node class", None, 0)
    for number in range(10, 10 + ENOUGH, 2):
        learn_watched(powers, [ran(str(number), 400.0, name="hot_1"), ran(str(number + 1), 100.0, name="cold")])
    assert (powers.errors.used, powers.errors.outcomes) == ("history", ENOUGH)
    draws = powers.of(
        [pending("4", name="hot_27"), pending("5", name="cold"), pending("6", user="bob")], KINDS, at_s=4000
    )
    assert draws["4"][:2] == (pytest.approx(400), "jobs of the same user, name and size")
    assert draws["5"].node_w == pytest.approx(100)
    assert powers.errors.mae is not None
    assert powers.errors.mae < 1 < powers.errors.naive_mae
    assert draws["6"].basis == "all jobs"


def test_jobs_without_a_measurement_leave_the_first_forecasts_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_errors, "MOST_OPEN", 2)
    powers, busy_w = JobPowers(), SERVER.running_w(JOB_UTILISATION)
    powers.of([pending("1")], KINDS, at_s=0)
    for number in ("2", "3", "4"):
        learn_watched(powers, [ran(number, 400.0, measured=0.2)])
    powers.of([pending("1", partitions=("dark",))], KINDS, at_s=4000)
    powers.learn([ran("1", busy_w)], at_s=7200)
    assert (powers.errors.naive_mae, powers.errors.outcomes) == (pytest.approx(0), 1)


def test_declared_job_power_overrides_learned_power() -> None:
    declared = parse_declared_draws(["hot*=400W", "partition:gpu=0.9kW", "account:chem*=350W", "user:ann = 120W"])
    powers = JobPowers(declared)
    powers.learn([ran("1", 77.0)], at_s=3600)
    jobs = [
        pending("2", name="hot"),
        pending("3", partitions=("gpu",)),
        pending("4", account="chemistry"),
        pending("5"),
    ]
    assert list(powers.of(jobs, KINDS, at_s=4000).values()) == [
        JobDraw(400.0, "declared: hot*=400W"),
        JobDraw(900.0, "declared: partition:gpu=0.9kW"),
        JobDraw(350.0, "declared: account:chem*=350W"),
        JobDraw(120.0, "declared: user:ann = 120W"),
    ]
    assert find_declared_draw(pending("6", user="bob"), declared, KINDS) is None


def test_a_declared_power_is_that_of_a_node_full_of_such_jobs() -> None:
    powers = JobPowers(parse_declared_draws(["hot*=700W"]))
    shared = pending("1", name="hot", whole_nodes=False, cpus=2)
    found = powers.of([shared, pending("2", name="hot")], KINDS, at_s=0)
    assert found["1"] == JobDraw(175.0, "declared: hot*=700W", 0.25)
    assert [draw.full_node_w for draw in found.values()] == [700.0, 700.0]


@given(st.lists(st.tuples(st.integers(1, 8), st.floats(1.0, 5000.0)), min_size=1, max_size=40), st.integers(1, 8))
def test_no_node_is_expected_to_draw_more_than_it_can(history: list[tuple[int, float]], cpus: int) -> None:
    powers = JobPowers()
    for number, (before, node_w) in enumerate(history, 10):
        learn_watched(powers, [ran(str(number), node_w, whole_nodes=False, cpus=before)])
    draw = powers.of([pending("1", whole_nodes=False, cpus=cpus)], KINDS, at_s=4000)["1"]
    assert draw.node_w <= draw.full_node_w <= SERVER.running_w(1.0) * (1 + 1e-9)


def test_a_constant_draw_is_that_of_all_jobs_that_no_class_names() -> None:
    declared = read_declared_draws(PowerSettings(job="constant:250W", classes=("hot*=400W",)))
    draws = JobPowers(declared).of([pending("1"), pending("2", name="hot")], KINDS, at_s=0)
    assert draws == {"1": JobDraw(250.0, "declared: constant:250W"), "2": JobDraw(400.0, "declared: hot*=400W")}
    assert read_declared_draws(PowerSettings(job="uniform:100W-300W")) == ()
    assert read_declared_draws(PowerSettings()) == ()


@pytest.mark.parametrize("text", ["hot", "=400W", "hot*=", "queue:a=4W", "hot=0W", "hot=-4W", "hot=4", "user:=4W"])
def test_empty_declaration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises((BadSetting, BadInput)) as refused:
        parse_declared_draws([text])
    assert refused.value.hint


def train(powers: JobPowers, times: RunTimes) -> None:
    """Let both learn enough jobs of 400 W and an hour to use them."""
    done = [ran(str(number), 400.0) for number in range(100, 101 + ENOUGH)]
    learn_watched(powers, done[:1])
    learn_watched(powers, done[1:])
    for each in done:
        times.learn([each.ended], at_s=3600)


def test_learned_model_survives_a_restart(tmp_path: Path) -> None:
    powers, times = JobPowers(path=tmp_path / "powers.npz"), RunTimes(path=tmp_path / "times.npz")
    train(powers, times)
    powers.keep()
    times.keep()
    again, times_again = JobPowers(path=tmp_path / "powers.npz"), RunTimes(path=tmp_path / "times.npz")
    assert (again.problem, times_again.problem) == ("", "")
    assert again.of([pending("2")], KINDS, at_s=10)["2"].node_w == pytest.approx(400)
    assert times_again.of([pending("2")], at_s=10) == {"2": 3600}
    assert (again.errors, times_again.errors) == (powers.errors, times.errors)
    assert (times.errors.used, times.errors.naive, times.errors.naive_mae) == ("similar jobs", "time limit", 82_800.0)


def test_a_damaged_file_is_reported_and_the_predictor_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "powers.npz"
    file.write_text("not a model")
    powers = JobPowers(path=file)
    assert powers.problem.endswith("the forecast starts again")
    assert powers.of([pending("2")], KINDS, at_s=10)["2"].basis == "node class server"
    powers.keep()
    assert JobPowers(path=file).problem == ""
    with pytest.raises(CannotWrite):
        JobPowers(path=tmp_path / "none" / "powers.npz").keep()


def test_learned_model_is_saved_periodically_despite_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_predictor, "SAVE_PREDICTOR_EVERY_S", 0.0)
    folder = tmp_path / "state"
    powers = JobPowers(path=folder / "powers.npz")
    train(powers, RunTimes())
    assert "cannot be written" in powers.problem
    folder.mkdir()
    powers.learn([ran("2", 400.0)], at_s=3600)
    assert powers.problem == ""
    assert JobPowers(path=folder / "powers.npz").of([pending("3")], KINDS, at_s=10)["3"].node_w == pytest.approx(400)


def test_knowledge_stays_within_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_predictor, "MOST_PREDICTOR_BYTES", 100)
    powers = JobPowers(path=tmp_path / "powers.npz")
    train(powers, RunTimes())
    powers.keep()
    assert powers.of([pending("3")], KINDS, at_s=4000)["3"].basis == "node class server"


def ended(length_s: int, number: str = "", **other: object) -> EndedJob:
    return EndedJob(
        job(number or str(length_s), JobState.ENDED, start_s=100, end_s=100 + length_s, **other), 100 + length_s
    )


def test_run_times_are_the_limits_until_something_was_better() -> None:
    times = RunTimes()
    times.learn([ended(50), ended(150)], at_s=9000)
    jobs = [pending("10"), pending("12", user="bob", limit_s=None)]
    assert times.of(jobs, at_s=9000) == {"10": 86_400, "12": 30 * 86_400}
    for number in range(ENOUGH):
        times.learn([ended(200, str(number))], at_s=9000)
    assert times.of(jobs[:1], at_s=9000) == {"10": 200}
    assert (times.errors.used, times.errors.outcomes) == ("similar jobs", ENOUGH + 2)


def test_run_times_never_exceed_the_limit_and_ends_that_were_not_seen_teach_nothing() -> None:
    times = RunTimes()
    for number in range(2 * ENOUGH):
        times.learn([ended(150, str(number))], at_s=8000)
    times.learn(
        [EndedJob(job("9", JobState.ENDED, start_s=0, end_s=8000), 9000, "ended unseen within 8000 s")], at_s=9000
    )
    assert times.of([pending("10")], at_s=9000) == {"10": 150}
    assert 1 <= times.of([pending("11", limit_s=120)], at_s=9000)["11"] <= 120
    assert times.of([], at_s=0) == {}


def test_run_times_of_limits_that_are_right_stay_the_limits() -> None:
    times, random = RunTimes(), np.random.default_rng(1)
    for number in range(4 * ENOUGH):
        limit_s = int(random.integers(1, 1000)) * 60
        times.of([pending(str(number), limit_s=limit_s)], at_s=9000)
        times.learn([ended(limit_s - 30, str(number), limit_s=limit_s, submit_s=0)], at_s=9000)
    assert times.errors.used == times.errors.naive
    assert times.errors.naive_mae == 30


def test_columns_are_the_same_for_the_same_texts_and_have_no_end_of_running_jobs() -> None:
    jobs = job_columns(
        [pending("12_4", name="sim_001"), pending("13", name="sim_2"), pending("14", user="bob", nodes=0)]
    )
    assert jobs.application[0] == jobs.application[1]
    assert jobs.user[0] == jobs.user[1] != jobs.user[2]
    assert (jobs.job_id >= 0).all()
    assert len(set(jobs.job_id.tolist())) == 3
    assert (jobs.size.tolist(), jobs.runtime_s.tolist()) == ([1, 1, 1], [-1, -1, -1])
    times = ((100, 160), (100, 100), (100, 99), (None, 99), (100, None))
    over = [job(str(end_s), JobState.ENDED, start_s=start_s, end_s=end_s) for start_s, end_s in times]
    assert job_columns(over).runtime_s.tolist() == [60, 0, -1, -1, -1]


def test_shared_nodes_are_the_jobs_by_processors() -> None:
    assert draw_by_class(pending("1", whole_nodes=False, cpus=16, nodes=2), KINDS).node_w == pytest.approx(
        SERVER.running_w(JOB_UTILISATION)
    )


def test_ten_thousand_jobs_are_forecast_in_a_moment() -> None:
    powers = JobPowers(parse_declared_draws(["hot*=400W"]))
    powers.learn([ran(str(number), 200.0, user=f"u{number % 300}") for number in range(2000)], at_s=3600)
    jobs = [pending(str(number), user=f"u{number % 400}", name=f"job{number % 50}") for number in range(10_000)]
    powers.of(jobs, KINDS, at_s=4000)
    began = time.process_time()
    powers.of(jobs, KINDS, at_s=4000)
    assert time.process_time() - began < 2.0
