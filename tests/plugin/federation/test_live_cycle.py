"""A live choice: from what sites said, the same to the same, within its bar."""

import json
import time
from dataclasses import replace

import pytest

from offpeak.errors import BadInput, BadPrices
from offpeak.plugin.federation.jobs import PlacementRequest
from offpeak.plugin.federation.live_cycle import SiteReply
from offpeak.plugin.federation.site_report import Curve, SiteReport, WaitTable, parse_report, report_json
from offpeak.plugin.federation.sites import Grid, Reach, Site
from offpeak.prices.tariff import parse_tariff
from tests.peers.one_choice import choose

pytestmark = pytest.mark.quick

NOW_S = 1_795_215_600
PRICE = Curve(tuple(NOW_S + 3600 * hour for hour in range(72)), NOW_S + 72 * 3600, (80.0,) * 72, "EUR/MWh")
CARBON = replace(PRICE, value=(300.0,) * 72, unit="g/kWh")
WAITS = WaitTable((4, 16), (3600, 86_400), ((60.0, 600.0), (120.0, 1200.0)))
REPORT = SiteReport(NOW_S, "c", "slurm", 16, 0, 3, 4, WAITS, PRICE, CARBON)
JOB = PlacementRequest(cores=4, limit_s=3600)


def grid(count: int) -> Grid:
    return Grid(tuple(Site(f"s{i}", 4, 100.0, cores_per_unit=4, reach=Reach("local")) for i in range(count)))


def all_replies(count: int, **changes: object) -> dict[str, SiteReply]:
    return {f"s{i}": SiteReply(replace(REPORT, **changes)) for i in range(count)}  # type: ignore[arg-type]


def test_waits_are_those_of_the_next_larger_job() -> None:
    assert [WAITS.of(*job) for job in ((1, 60), (4, 3600), (4, 3601), (5, 60), (16, 10**9))] == [60, 60, 600, 120, 1200]
    assert WAITS.of(17, 60) != WAITS.of(17, 60)


def test_equal_sites_are_decided_by_their_order_every_time() -> None:
    answers = {repr(choose(JOB, grid(4), all_replies(4), now_s=NOW_S, stale_s=60)) for _ in range(3)}
    assert len(answers) == 1
    assert choose(JOB, grid(4), all_replies(4), now_s=NOW_S, stale_s=60).site == "s0"


def test_old_silent_and_unpriced_sites_are_left_out_with_a_reason() -> None:
    replies = all_replies(4)
    replies["s0"] = SiteReply(replace(REPORT, at_unix_s=NOW_S - 61))
    replies["s1"] = SiteReply(problem="its agent does not answer: refused")
    replies["s2"] = SiteReply(replace(REPORT, price=None))
    choice = choose(JOB, grid(4), replies, now_s=NOW_S, stale_s=60)
    assert choice.site == "s3"
    assert {miss.site: miss.text for miss in choice.misses} == {
        "s0": "its last answer is 61 s old",
        "s1": "its agent does not answer: refused",
        "s2": "its agent knows no price",
    }
    assert choice.chosen is not None
    assert choice.chosen.delay_s == 60


def test_a_tariff_of_the_file_holds_before_what_the_agent_says() -> None:
    tariff = parse_tariff("on=10EUR/MWh,off=10EUR/MWh,hours=08:00-20:00")
    sites = Grid((grid(1).sites[0], replace(grid(1).sites[0], name="s1", tariff=tariff)))
    assert choose(replace(JOB, goal="cost"), sites, all_replies(2), now_s=NOW_S, stale_s=60).site == "s1"


def test_two_currencies_are_an_error_unless_one_is_left_out() -> None:
    replies = all_replies(2)
    replies["s1"] = SiteReply(replace(REPORT, price=replace(PRICE, unit="NOK/MWh")))
    with pytest.raises(BadPrices):
        choose(JOB, grid(2), replies, now_s=NOW_S, stale_s=60)
    replies["s1"] = SiteReply(replace(REPORT, price=replace(PRICE, unit="NOK/MWh"), at_unix_s=0))
    assert choose(JOB, grid(2), replies, now_s=NOW_S, stale_s=60).site == "s0"


def test_no_site_in_time_is_the_reason() -> None:
    choice = choose(replace(JOB, latest_end_s=NOW_S + 1800), grid(2), all_replies(2), now_s=NOW_S, stale_s=60)
    assert choice.reason.startswith("no site can end it in time; it starts soonest at s0")


def test_a_report_survives_json_and_other_versions_do_not() -> None:
    message = json.loads(json.dumps(report_json(REPORT)))
    assert parse_report(message) == REPORT
    for wrong in ({"version": 2}, {"waits": {"cores": [1], "limit_s": [1], "wait_s": []}}, {"cores": "many"}):
        with pytest.raises(ValueError, match=r".+"):
            parse_report(message | wrong)


def test_eight_live_sites_take_less_than_200_ms() -> None:
    choose(JOB, grid(8), all_replies(8), now_s=NOW_S, stale_s=60)
    took_s = []
    for _ in range(5):
        began_s = time.perf_counter()
        choose(JOB, grid(8), all_replies(8), now_s=NOW_S, stale_s=60)
        took_s.append(time.perf_counter() - began_s)
    assert min(took_s) < 0.2


def test_ranks_say_how_long_an_application_runs_elsewhere() -> None:
    slow, fast = (replace(grid(1).sites[0], name=f"s{i}", ranks={"gromacs": rank}) for i, rank in enumerate((1.0, 2.0)))
    sites, wanted = Grid((slow, fast)), replace(JOB, goal="energy")
    choice = choose(replace(wanted, application="gromacs"), sites, all_replies(2), now_s=NOW_S, stale_s=60)
    assert choice.chosen is not None
    assert (choice.site, choice.chosen.runtime_s) == ("s1", JOB.limit_s / 2)
    assert choose(wanted, sites, all_replies(2), now_s=NOW_S, stale_s=60).site == "s0"
    with pytest.raises(BadInput, match="no site has a rank for the application 'gromac'") as problem:
        choose(replace(wanted, application="gromac"), sites, all_replies(2), now_s=NOW_S, stale_s=60)
    assert problem.value.hint == "did you mean gromacs?"
