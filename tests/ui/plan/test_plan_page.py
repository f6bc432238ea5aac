"""The plan's page in a browser: it is drawn, complains of nothing and asks nobody for anything."""

from pathlib import Path

from planned_site import HOUR_S, NOW_S, RULES, a_job, a_running, make_inputs
from playwright.sync_api import Browser

from offpeak.model.facility import PowerCap
from offpeak.plugin.day_plan.make import plan_day
from offpeak.plugin.planner.orders import budget_of
from offpeak.ui.plan.plan import plan_page


def test_the_page_is_drawn_with_all_kinds_of_jobs(chromium: Browser, tmp_path: Path) -> None:
    jobs = (a_running(1, "n1"), a_job(2), a_job(3, comment="offpeak:delay=12h"), *(a_job(at) for at in range(4, 9)))
    cap = PowerCap(NOW_S + HOUR_S, NOW_S + 2 * HOUR_S, 700, "the grid asks", "events.toml")
    plan = plan_day(make_inputs(jobs, caps=(cap,)), None, budget_of(1.0))
    assert plan is not None
    file = tmp_path / "plan.html"
    file.write_text(plan_page(plan, RULES.zone), encoding="utf-8")
    page = chromium.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.extend([] if request.url == file.as_uri() else [request.url]))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    legend = page.locator("ul.legend li").all_text_contents()
    assert {"runs", "planned", "kept back by a cap", "cap on power", "price", "outside temperature"} <= set(legend)
    assert page.locator(".plot .bars .point").count() == sum(len(job.hosts) for job in plan.jobs) + 1
    assert complaints == []
    page.close()
