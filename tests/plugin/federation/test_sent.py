"""What was sent counts: against allocations for good, and against what is idle until the site tells of it."""

from dataclasses import replace

from offpeak.plugin.federation.jobs import PlacementRequest
from offpeak.plugin.federation.live_cycle import SentJob, SiteReply, add_sent_jobs, left_core_s
from offpeak.plugin.federation.site_report import Curve, SiteReport, WaitTable
from offpeak.plugin.federation.sites import Grid, Reach, Site
from tests.peers.one_choice import choose

NOW_S = 1_795_215_600
HOUR_S = 3600
PRICE = Curve((NOW_S,), NOW_S + 72 * HOUR_S, (80.0,), "EUR/MWh")
CARBON = replace(PRICE, value=(300.0,), unit="g/kWh")
REPORT = SiteReport(NOW_S, "c", "slurm", 16, 16, 0, 0, WaitTable((16,), (HOUR_S,), ((0.0,),)), PRICE, CARBON)
JOB = PlacementRequest(cores=16, limit_s=HOUR_S, goal="time", project="climate")
SENT = SentJob("near", NOW_S, 16, 2 * HOUR_S, "climate")
NEAR = Site("near", 4, 100.0, cores_per_unit=4, allocations={"climate": 50.0, "other": 10.0}, reach=Reach("local"))
GRID = Grid((NEAR, replace(NEAR, name="far")))
REPLIES = {"near": SiteReply(REPORT), "far": SiteReply(REPORT)}


def chosen(*sent: SentJob, grid: Grid = GRID, now_s: int = NOW_S, at: str = "near") -> tuple[str | None, str]:
    choice = choose(JOB, grid, REPLIES, now_s=now_s, stale_s=60.0, sent=sent)
    return choice.site, {miss.site: miss.text for miss in choice.misses}.get(at, "")


def test_idle_cores_are_given_to_one_job_only() -> None:
    assert chosen() == ("near", "")
    assert chosen(SENT) == ("far", "")
    later = add_sent_jobs(REPORT, [SENT, SENT])
    assert (later.idle_cores, later.queued, later.waits.wait_s) == (0, 1, ((4.0 * HOUR_S,),))


def test_reported_and_cancelled_jobs_are_not_added_again() -> None:
    assert add_sent_jobs(REPORT, [replace(SENT, at_unix_s=NOW_S - 6), replace(SENT, there=False)]) == REPORT
    assert add_sent_jobs(REPORT, [replace(SENT, at_unix_s=NOW_S - 4)]) != REPORT


def test_a_spent_allocation_keeps_jobs_away_and_is_the_reason() -> None:
    seen = replace(SENT, at_unix_s=NOW_S - HOUR_S)
    assert chosen(seen) == ("near", "")
    assert chosen(seen, replace(seen, cores=3)) == ("far", "climate has 12 of 50 core-hours left")
    spent = [replace(seen, site=name, there=False) for name in GRID.names for _ in range(2)]
    assert chosen(*spent, at="far") == (None, "climate has 0 of 50 core-hours left")


def test_a_period_forgets_what_was_before_it_and_others_pay_for_themselves() -> None:
    grid = Grid((replace(NEAR, allocations_since_s=NOW_S), GRID.sites[1]))
    before = replace(SENT, at_unix_s=NOW_S - 1)
    assert left_core_s(grid, [before, before, replace(before, site="gone")])[0].tolist() == [50 * HOUR_S, 50 * HOUR_S]
    assert left_core_s(grid, [SENT, replace(SENT, project="nobody")])[:, 0].tolist() == [18 * HOUR_S, 10 * HOUR_S, 0]
