"""What the agent says, as operators and users read it."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from agent_socket import AT_S, PRICE, PUBLISHED
from rich.console import Console

from offpeak.services.accounts.account_of_savings import NO_SAVINGS, DemandSaving
from offpeak.services.accounts.job_bills import JobBill
from offpeak.services.agent.status import NO_SCHEDULER, NodeCounts, PriceStatus, parse_status, status_json
from offpeak.ui.agent.bills import bills_table, sum_text, unknown_lines
from offpeak.ui.agent.status import LocalClock, price_text, queue_table, status_lines, why_lines
from offpeak.ui.terminal import table_lines

pytestmark = pytest.mark.quick

CLOCK = LocalClock(AT_S + 12, ZoneInfo("Europe/Berlin"))

Golden = Callable[[str, str], None]


def test_status(golden: Golden) -> None:
    little = replace(
        PUBLISHED,
        price=PriceStatus(None, "", ""),
        nodes=NodeCounts(),
        saved_today=NO_SAVINGS,
        problems=(),
        forecasts=(),
    )
    hangs = replace(little, at_unix_s=AT_S - 3600)
    golden(
        "status.txt", "\n\n".join("\n".join(status_lines(each, CLOCK)) for each in (PUBLISHED, little, hangs)) + "\n"
    )


def test_status_shows_the_demand_charges() -> None:
    known = DemandSaving("demand 2026-10", AT_S - 1800, 127.34, 1018.72, "EUR", 1.0, True, 139.6, 98.08)
    unknown = replace(known, is_over=False, without_kw=None, saved=None, why="readings are missing")
    sent = parse_status(json.loads(json.dumps(status_json(replace(PUBLISHED, demand=(known, unknown))))))
    first, second = [line for line in status_lines(sent, CLOCK) if line.startswith("demand ")]
    peak = "demand       demand 2026-10: 127.3 kW on 2026-11-01 08:30, 1,018.72 EUR"
    assert first == f"{peak}; saved 98.08 EUR, 139.6 kW without offpeak"
    assert second == f"{peak} so far; saving not known, because readings are missing"


def test_status_before_the_first_look_and_of_a_cluster_without_a_name() -> None:
    not_yet = "mode active, NO DATA YET: no cycle has succeeded, it tries every 30 s"
    before = replace(PUBLISHED, cluster="", scheduler=NO_SCHEDULER, has_looked=False)
    assert status_lines(before, CLOCK)[0] == f"the scheduler has not been read yet: {not_yet}"
    failed = replace(PUBLISHED, at_unix_s=float(AT_S), has_looked=False)
    assert status_lines(failed, CLOCK)[0] == f"test (slurm 22.05.8): {not_yet}"
    assert status_lines(replace(PUBLISHED, cluster=""), CLOCK)[0].startswith("slurm 22.05.8: mode active, looked ")


def test_an_agent_whose_scheduler_gives_no_answer_does_not_hang() -> None:
    def first_line(ended_s: float | None) -> str:
        return status_lines(replace(PUBLISHED, last_round_unix_s=ended_s), LocalClock(AT_S + 3600.0, UTC))[0]

    looked = "test (slurm 22.05.8): mode active, looked 1 h ago, every 30 s"
    assert first_line(AT_S + 3480.0) == f"{looked}: IT TRIES AGAIN, all its rounds since then have failed"
    assert first_line(AT_S + 3300.0) == first_line(None) == f"{looked}: IT HANGS"


def test_an_agent_with_a_fast_clock_is_late_by_real_seconds() -> None:
    fast = replace(PUBLISHED, clock_factor=600.0, cycle_s=300)
    assert status_lines(fast, LocalClock(AT_S + 14 * 600, UTC))[0].endswith("looked 2:20 h ago, every 5 min")
    assert status_lines(fast, LocalClock(AT_S + 16 * 600, UTC))[0].endswith(": IT HANGS")


def test_a_long_table_is_laid_out_as_a_short_one() -> None:
    jobs = [replace(PUBLISHED.jobs[0], user="mü", why="節電"), *PUBLISHED.jobs]
    console = Console(file=io.StringIO(), width=200, highlight=False, markup=False)
    console.print(queue_table(jobs, CLOCK))
    assert isinstance(console.file, io.StringIO)
    assert table_lines(queue_table(jobs, CLOCK)) == list(map(str.rstrip, console.file.getvalue().splitlines()))


def test_why(golden: Golden, repository: Path) -> None:
    jobs = [replace(PUBLISHED, jobs=(job,)) for job in PUBLISHED.jobs]
    shown = [*jobs, replace(jobs[0], mode="shadow"), replace(jobs[0], scheduler="pbs 20.0.1")]
    texts = ["\n".join(why_lines(each, CLOCK)) for each in shown]
    golden("why.txt", "\n\n".join(texts) + "\n")
    assert f"```text\n{texts[0]}\n```" in (repository / "docs" / "how-to" / "for-users.md").read_text()


def test_an_own_policy_and_its_shadow_are_named() -> None:
    own = replace(PUBLISHED, own_policy="widest", jobs=PUBLISHED.jobs[:1])
    shadowed = replace(own, own_policy_is_shadowed=True)
    assert "queue        own policy widest" in status_lines(own, CLOCK)
    text = "own policy widest, in mode shadow until allow_own_policies = true"
    assert f"queue        {text}" in status_lines(shadowed, CLOCK)
    assert why_lines(shadowed, CLOCK)[-1] == f"order      {text}"
    assert why_lines(own, CLOCK) == why_lines(replace(own, own_policy=""), CLOCK)


def test_queue(golden: Golden) -> None:
    console = Console(file=io.StringIO(), width=200, highlight=False, markup=False)
    console.print(queue_table(PUBLISHED.jobs, CLOCK))
    assert isinstance(console.file, io.StringIO)
    golden("queue.txt", "\n".join(map(str.rstrip, console.file.getvalue().splitlines())) + "\n")


def test_control_characters_of_users_are_escaped() -> None:
    (job, *_) = PUBLISHED.jobs
    rude = replace(PUBLISHED, jobs=(replace(job, user="\x1b[2J", why="a\nb"),), problems=("x\ry",))
    lines = why_lines(rude, CLOCK) + status_lines(rude, CLOCK)
    assert all(line.isprintable() for line in lines)


def test_a_price_of_another_day_has_its_date() -> None:
    tomorrow = replace(PRICE, until_unix_s=AT_S + 86_400, on_peak=False)
    assert price_text(tomorrow, CLOCK) == "92.40 EUR/MWh, off-peak until 2026-11-02 09:00 (published)"


def test_the_users_guide_shows_a_month_of_jobs(repository: Path) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    hour_s = 3600.0
    run = JobBill(
        *("1841", "ann", "physics", "batch", "n[1-4]", AT_S, AT_S + 14 * hour_s, AT_S + 16 * hour_s),
        *(3.28 * 3.6e6, 0.26, "EUR", 0.38, "measured"),
        *("T2", AT_S + hour_s, 3.28 * 3.6e6, 0.12, 0.03),
        carbon_g=918.0,
        expected_saving=0.21,
    )
    plain = replace(run, job="1790", nodes="n7", started_unix_s=AT_S + 600, ended_unix_s=AT_S + hour_s, energy_j=7.6e5)
    plain = replace(plain, cost=0.02, at_submission_cost=0.02, tier="", carbon_g=None)
    plain = replace(plain, tier_saved=None, credit=None, expected_saving=None)
    bills = (run, replace(plain, carbon_why="the ledger has a carbon intensity for less than 90 % of the time"))
    shown = [*table_lines(bills_table(bills, berlin)), "", sum_text(bills), *unknown_lines(bills)]
    page = (repository / "docs" / "how-to" / "for-users.md").read_text()
    assert "```text\n" + "\n".join(shown) + "\n```" in page
