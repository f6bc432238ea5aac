"""The status page in a browser: on a phone, in dark mode, by keyboard, and while values change."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium_fixture import PATIENCE_MS
from contrast import contrast, low_contrasts
from page_site import AT_S, PageSite, make_snapshot, page_site
from playwright.sync_api import Browser, Page, Route, expect
from text_overlaps import text_overlaps
from zygote import Zygote

from offpeak.services.accounts.account_of_savings import NO_SAVINGS, LeverSaving, SavingsAccount
from offpeak.services.agent.status import StatusSnapshot

DRAWN = "html[data-status][data-nodes][data-jobs][data-events][data-saved][data-prices][data-power]"
FIGURES_FIT = """() => new Promise((done) => {
  const fits = (plot) => plot.querySelector("svg")?.clientHeight === plot.clientHeight;
  const look = (left) => {
    if ([...document.querySelectorAll(".plot")].every(fits)) done(true);
    else if (left) requestAnimationFrame(() => look(left - 1));
    else done(false);
  };
  look(300);
})"""
HOSTILE = "<img src=x onerror=alert(1)>"


@dataclass
class Opened:
    """A page, its errors, and its requests to other hosts."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def site(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    with page_site(zygote, tmp_path_factory.mktemp("site"), make_snapshot()) as site:
        yield site


@contextmanager
def open_page(chromium: Browser, site: PageSite, width: int, scheme: Literal["light", "dark"]) -> Iterator[Opened]:
    """Give the page once it is drawn; at the end it has no errors, and has reached only its own service."""
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    seen = Opened(context.new_page())

    def refuse(route: Route) -> None:
        seen.requests.append(route.request.url)
        route.abort()

    seen.page.route(lambda url: not url.startswith((site.url, "data:")), refuse)
    seen.page.on("console", lambda message: seen.complaints.append(message.text))
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    try:
        seen.page.goto(site.url)
        seen.page.wait_for_selector(DRAWN, state="attached", timeout=PATIENCE_MS)
        yield seen
    finally:
        context.close()
    assert (seen.complaints, seen.requests) == ([], [])


@pytest.fixture
def opened(chromium: Browser, site: PageSite) -> Iterator[Opened]:
    """A page of its own, for a test that uses mouse or keys."""
    with open_page(chromium, site, 1366, "light") as seen:
        yield seen


@pytest.fixture(scope="module")
def read_only(chromium: Browser, site: PageSite) -> Iterator[Page]:
    """The page that is shared by tests that only read it."""
    with open_page(chromium, site, 1366, "light") as seen:
        yield seen.page


HOLDERS = "td, th, li, .card, #tiles dl > div, header, #trouble"
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (820, "dark"), (2560, "light")])
def test_page_fits_and_is_legible_for_all(
    chromium: Browser, site: PageSite, width: int, scheme: Literal["light", "dark"]
) -> None:
    with open_page(chromium, site, width, scheme) as opened:
        page = opened.page
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert low_contrasts(page, "body *:not(script)") == []
        assert text_overlaps(page, HOLDERS) == []
        assert page.evaluate("document.body.clientWidth") == width
        for plot in ("#saved .plot", "#ahead .plot"):
            box = page.locator(f"{plot} .main-svg").first.bounding_box()
            assert box
            assert box["width"] >= page.locator(plot).bounding_box()["width"] * 0.8  # type: ignore[index]
        page.locator("#queue tbody button").first.click()
        found = Axe().run(page, options={"runOnly": WCAG})
        assert found.violations_count == 0, found.generate_report()
        page.locator("#range button[value=day]").click()
        expect(page.locator("#saved .legend li").last).to_have_text("without offpeak")
        colours = "name => getComputedStyle(document.querySelector(name))"
        saved = page.evaluate(f"({colours})('#saved .legend li:nth-last-child(2) i').backgroundColor")
        card = page.evaluate(f"({colours})('#saved').backgroundColor")
        assert contrast(saved, [card]) >= 3


def test_the_longest_texts_fit_a_phone(zygote: Zygote, chromium: Browser, tmp_path: Path) -> None:
    with page_site(zygote, tmp_path, long_texts(), hours=1) as site, open_page(chromium, site, 360, "light") as opened:
        page = opened.page
        expect(page.locator("#queue tbody")).to_contain_text("configuring")
        page.locator("#grid .node").first.click()
        assert text_overlaps(page, HOLDERS) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def long_texts() -> StatusSnapshot:
    """Return a large PBS site with long names, states and figures."""
    shown = make_snapshot(16, 12)
    states = ("RUNNING", "CONFIGURING", "SUSPENDED", "COMPLETING", "held by its user", "running")
    jobs = tuple(
        replace(
            job,
            job_id=f"{job.job_id}[{at}].pbs-head.cluster.example.org",
            user="a-very-long-user-name-of-a-visitor",
            nodes=1024,
            place=None if at % 2 else job.place,
            state=states[at % len(states)],
            moved="" if at % 2 else "down 1234",
        )
        for at, job in enumerate(shown.published.jobs)
    )
    nodes = tuple(
        node._replace(node=f"compute-rack-b-{node.node}-gpu", why=f"{node.why} {'x' * 60}") for node in shown.nodes
    )
    published = replace(
        shown.published,
        jobs=jobs,
        cluster="a-cluster-with-quite-a-long-name.example.org",
        scheduler="openpbs 23.06.06",
        mode="shadow",
        price=replace(shown.published.price, now=12345.6, on_peak=True),
        saved_today=SavingsAccount(
            (LeverSaving("sleep", 1, 1.2e12, 123456.7, measured_share=0.5),), 1.2e12, 123456.7, currency="EUR", days=1
        ),
        problems=(
            "scheduler: qstat: cannot connect to server a-cluster-with-quite-a-long-name.example.org " + "y" * 80,
        ),
    )
    return replace(shown, published=published, nodes=nodes)


@pytest.mark.quick
def test_page_shows_present_values_at_the_top(read_only: Page) -> None:
    tiles = read_only.locator("#tiles dl")
    expect(tiles).to_contain_text("52.0 EUR/MWh")
    expect(tiles).to_contain_text("off-peak until 16:00")
    expect(read_only.locator("#saved-title")).to_have_text("Saved today")
    expect(read_only.locator("#range [aria-pressed=true]")).to_have_text("day")
    expect(read_only.locator("#saved-value")).to_have_text("2.71 EUR measured")
    expect(read_only.locator("header")).to_contain_text("elbe · slurm 22.05.8")
    expect(read_only.locator("#errors tbody")).to_contain_text("run timeby similar jobs; time limit: 7:20 h31 min500")


def test_the_figures_say_what_they_show_to_who_cannot_see(read_only: Page) -> None:
    label = read_only.locator("#ahead .plot").get_attribute("aria-label") or ""
    assert re.search(r"price: 52\.0 now, from 44\.0 to 138 EUR/MWh until 13 Nov 14:30", label)
    assert "cheapest: 13 Nov 02:00 to 13 Nov 05:00, 13 Nov 13:00 to 13 Nov 14:00" in label
    assert "30 jobs to start" in label
    jobs_kw, planned_kw = map(float, re.findall(r"(?:jobs|nodes,) ([\d.]+) kW now", label))
    assert planned_kw == pytest.approx(jobs_kw + 1.45)
    assert "0 of 23 nodes that are asleep are planned to sleep on" in label
    day = read_only.locator("#saved .plot").get_attribute("aria-label") or ""
    assert re.search(r"power by node state: [\d.]+ kW at last, [\d.]+ kW without offpeak", day)
    assert read_only.locator("#ahead .shapelayer path").count() >= 3


def test_a_node_says_all_of_itself_by_mouse_and_by_keys(opened: Opened) -> None:
    page = opened.page
    expect(page.locator("#grid .node")).to_have_count(64)
    page.locator('#grid .node[data-kind="off"]').first.hover()
    panel = page.locator("#node")
    expect(panel).to_contain_text("off for")
    expect(panel).to_contain_text("wanted: soft off")
    expect(panel).to_contain_text("idle for 22 min, and no job of the next 6 h needs it")
    page.locator("#grid").focus()
    page.keyboard.press("Home")
    expect(panel.locator("b")).to_have_text("n001")
    page.keyboard.press("ArrowRight")
    expect(panel.locator("b")).to_have_text("n002")
    page.keyboard.press("End")
    expect(panel.locator("b")).to_have_text("n064")
    assert page.locator("#grid").get_attribute("aria-activedescendant") == "node-63"
    page.keyboard.press("ArrowUp")
    expect(panel.locator("b")).not_to_have_text("n064")
    page.keyboard.press("ArrowDown")
    expect(panel.locator("b")).to_have_text("n064")
    assert page.locator('#grid [role="group"]').evaluate_all("all => all.map(each => each.ariaLabel)") == ["r01", "r02"]


def test_the_saving_of_a_day_a_week_and_a_month(opened: Opened) -> None:
    page, label = opened.page, opened.page.locator("#saved .plot")
    for name, title in (("month", "Saved this month"), ("week", "Saved in seven days"), ("day", "Saved today")):
        page.locator(f"#range button[value={name}]").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#saved-title")).to_have_text(title)
        expect(page.locator("#range [aria-pressed=true]")).to_have_text(name)
        if name != "day":
            expect(label).to_have_attribute(
                "aria-label", re.compile(r"12 Nov 1\.92 kW, 27\.8 kWh, 2\.71 EUR, measured")
            )
            expect(page.locator("#saved-year")).to_contain_text("EUR a year at this rate")
            expect(page.locator("#saved-share")).to_contain_text("kg CO2")
    expect(page.locator("#saved-value")).to_have_text("2.71 EUR measured")
    expect(page.locator("#saved-note")).to_contain_text("2.65 to 2.77 EUR in 19 of 20 cases · 30.4 kWh")
    expect(page.locator("#saved-note")).to_contain_text("a yearly rate needs a whole day")
    expect(label).to_have_attribute("aria-label", re.compile("power by node state"))
    drawn, without = map(float, re.findall(r"([\d.]+) kW", label.get_attribute("aria-label") or ""))
    assert 5 < drawn < without < 25
    assert page.evaluate(FIGURES_FIT)
    expect(page.locator("#saved .legend")).to_contain_text("saved")
    box = label.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] / 2)
    expect(label.locator(".hoverlayer")).to_contain_text("kW saved")
    expect(label.locator(".hoverlayer")).to_contain_text("kW without offpeak")


def test_co2_is_shown_instead_of_money(opened: Opened) -> None:
    page = opened.page
    page.locator("#range button[value=month]").click()
    page.locator("#by button[value=carbon]").click()
    expect(page.locator("#saved-value")).to_have_text("38.3 kg CO2 measured")
    expect(page.locator("#saved-share")).to_have_text("10.21 EUR")
    expect(page.locator("#ahead .plot")).to_have_attribute(
        "aria-label", re.compile("^CO2: .* g CO2/kWh until .*cleanest")
    )
    expect(page.locator("#ahead .legend")).to_contain_text("cleanest 4 h")
    expect(page.locator("#ahead .legend")).not_to_contain_text("on-peak")


def test_page_shows_the_demand_charges_and_nothing_without_them(
    read_only: Page, zygote: Zygote, chromium: Browser, tmp_path: Path
) -> None:
    tile = read_only.locator("#tile-demand")
    expect(tile).to_contain_text("127.3 kW")
    expect(tile).to_contain_text("9 Nov 14:30 · 1,018.72 EUR so far · saved 98.08")
    both = "demand 2026-11: 127.3 kW .*\non-peak 2026-11: 98.2 kW .* saving not known: readings are missing"
    expect(tile).to_have_attribute("title", re.compile(both))
    shown = make_snapshot()
    without = replace(shown, published=replace(shown.published, demand=()))
    with page_site(zygote, tmp_path, without, hours=1) as site, open_page(chromium, site, 1366, "light") as opened:
        expect(opened.page.locator("#tile-demand")).to_be_hidden()


def of_types(shown: StatusSnapshot, types: int, partitions: int) -> StatusSnapshot:
    """Return the site with nodes of several types in several partitions; the later the type, the fewer its nodes."""
    nodes = []
    for at, node in enumerate(shown.nodes):
        number = at if at < types else at * 7 % (at % types + 1)
        gpus = f", {4 + number % 3 * 2} gpu-model-{number} GPUs" if number % 3 == 1 else ""
        inside = ",".join(f"p{name}" for name in range(1, partitions + 1) if (name - number) % 3 == 0 or name == 1)
        nodes.append(
            node._replace(node_type=f"{32 + 8 * number} cores, {256 + 64 * number:,} GiB{gpus}", partitions=inside)
        )
    return replace(shown, nodes=tuple(nodes))


def assert_nodes_are_legible(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert low_contrasts(page, "#nodes *") == []
    assert text_overlaps(page, HOLDERS) == []


def test_nodes_of_several_types_are_counted_and_chosen(zygote: Zygote, chromium: Browser, tmp_path: Path) -> None:
    with page_site(zygote, tmp_path, of_types(make_snapshot(2400), 40, 30), hours=1) as site:
        with open_page(chromium, site, 360, "dark") as opened:
            assert_nodes_are_legible(opened.page)
        with open_page(chromium, site, 1366, "light") as opened:
            page, rows = opened.page, opened.page.locator("#types tbody tr")
            assert_nodes_are_legible(page)
            expect(rows).to_have_count(40)
            expect(page.locator("#nodes-count")).to_have_text("2,400 nodes")
            expect(page.locator("#racks button")).to_have_count(75)
            page.locator("#racks button").nth(1).click()
            expect(page.locator("#grid .node")).to_have_count(32)
            page.keyboard.press("Enter")
            expect(page.locator("#racks button")).to_have_count(75)
            sizes = [int(text) for text in rows.locator(".number").all_inner_texts()]
            assert (sum(sizes), sizes) == (2400, sorted(sizes, reverse=True))
            page.keyboard.press("Tab")
            rows.nth(0).locator("button").focus()
            page.keyboard.press("Enter")
            expect(page.locator("#grid .node")).to_have_count(sizes[0])
            expect(page.locator("#nodes-count")).to_have_text(f"{sizes[0]} of 2,400 nodes")
            page.locator("#grid .node").first.hover()
            expect(page.locator("#node")).to_contain_text("cores, ")
            expect(page.locator("#node")).to_contain_text(" · p1, ")
            count = page.locator("html").get_attribute("data-nodes") or ""
            changed = of_types(make_snapshot(2400, seed=7), 40, 30)
            site.agent.snapshot = replace(changed, published=replace(changed.published, at_unix_s=AT_S + 30))
            expect(page.locator("html")).not_to_have_attribute("data-nodes", count)
            assert page.evaluate("document.activeElement === document.querySelector('#types button')")
            expect(page.locator("#grid .node")).to_have_count(sizes[0])
            rows.nth(0).locator("button").click()
            expect(page.locator("#nodes-count")).to_have_text("2,400 nodes")
            options = page.locator("#partition option").all_inner_texts()
            assert options == ["all 30", *(f"p{name}" for name in range(1, 31))]
            page.locator("#partition").select_option("p10")
            expect(rows).to_have_count(13)
            expect(page.locator("#nodes-count")).to_contain_text(" of 2,400 nodes")


def test_the_queue_stands_in_its_order_and_can_be_searched(opened: Opened) -> None:
    rows = opened.page.locator("#queue tbody tr")
    expect(rows).to_have_count(40)
    expect(rows.nth(0)).to_contain_text("on-peak from 16:00")
    assert [rows.nth(at).locator("td").nth(1).inner_text() for at in range(3)] == ["18400", "18401", "18402"]
    rows.nth(0).locator("button").click()
    details = opened.page.locator("#queue tr.details")
    expect(details).to_contain_text("place1 of 30, moved up 2")
    expect(details).to_contain_text("on-peak from 16:00")
    assert rows.nth(0).locator("button").get_attribute("aria-expanded") == "true"
    opened.page.keyboard.press("Enter")
    expect(details).to_have_count(0)
    opened.page.locator("#find").fill("18417")
    expect(rows).to_have_count(1)
    opened.page.locator("#find").fill("nobody of that name")
    expect(opened.page.locator("#more")).to_have_text("no such job")


def test_events_are_shown_in_order_of_time(read_only: Page) -> None:
    events = read_only.locator("#events li")
    expect(read_only.locator('#events li[data-result="refused"]')).to_contain_text("held by ann: new fan")
    times = [locator.get_attribute("datetime") or "" for locator in events.locator("time").all()]
    assert times == sorted(times, reverse=True)
    expect(events.filter(has_text="4 nodes put to sleep, saves 0.556 kW").first).to_be_visible()
    assert 2 < len(times) < 12
    assert events.filter(has_text="keep on").count() == 0


def test_everything_is_reached_by_the_tab_key(opened: Opened) -> None:
    page, reached = opened.page, []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("(e => e.id || e.className || e.tagName)(document.activeElement)"))
    assert reached[:4] == ["skip", "BUTTON", "BUTTON", "BUTTON"]
    assert [each for each in reached if each in ("grid", "scroll", "find", "link")][:4] == [
        "grid",
        "scroll",
        "find",
        "scroll",
    ]
    assert reached[-1] == "link"


def test_page_updates_itself(opened: Opened, site: PageSite) -> None:
    kinds = "[...document.querySelectorAll('#grid .node')].map(node => node.dataset.kind).join()"
    before = opened.page.evaluate(kinds)
    count = opened.page.locator("html").get_attribute("data-nodes") or ""
    site.change()
    expect(opened.page.locator("html")).not_to_have_attribute("data-nodes", count)
    assert opened.page.evaluate(kinds) != before
    site.agent.snapshot = make_snapshot()


def newly_installed() -> StatusSnapshot:
    """Return a site that knows its nodes only: no price, no job, no saving."""
    shown = make_snapshot(16, 0)
    price = replace(shown.published.price, now=None, basis="no price is known", on_peak=None, until_unix_s=None)
    published = replace(shown.published, price=price, saved_today=NO_SAVINGS, demand=(), forecasts=())
    return replace(shown, published=published, slots=(), prices_until_unix_s=None, job_counts=(), planned_w=())


def test_a_new_site_says_what_will_appear_instead_of_empty_axes(
    zygote: Zygote, chromium: Browser, tmp_path: Path
) -> None:
    with (
        page_site(zygote, tmp_path, newly_installed(), is_new=True) as site,
        open_page(chromium, site, 390, "light") as opened,
    ):
        page = opened.page
        expect(page.locator("#saved-note")).to_contain_text("The saving appears here within 15 min")
        expect(page.locator("#ahead .plot")).to_contain_text("No price is known: it appears here once")
        expect(page.locator("#ahead")).not_to_contain_text("planned")
        expect(page.locator("#events")).to_contain_text("appears here at once, with its reason")
        expect(page.locator("#more")).to_contain_text("No job waits or runs.")
        expect(page.locator("#errors tbody")).to_contain_text("Errors appear here when")
        for unused in (".main-svg", "#saved-value", "#queue table", "#find", "#past-title"):
            expect(page.locator(unused).locator("visible=true")).to_have_count(0)
        page.locator("#range button[value=day]").click()
        expect(page.locator("#saved .plot")).to_contain_text("a quarter-hour after the first reading")
        assert text_overlaps(page, HOLDERS) == []
        assert Axe().run(page).violations_count == 0


def test_no_name_becomes_markup(zygote: Zygote, chromium: Browser, tmp_path: Path) -> None:
    shown = make_snapshot(4, 3)
    job = replace(shown.published.jobs[0], user=HOSTILE, why=HOSTILE)
    evil = replace(shown, published=replace(shown.published, jobs=(job,), cluster=HOSTILE))
    with page_site(zygote, tmp_path, evil, hours=1) as site:
        page = chromium.new_page()
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.goto(site.url)
        page.wait_for_selector("html[data-jobs]", state="attached", timeout=PATIENCE_MS)
        expect(page.locator("#queue tbody")).to_contain_text(HOSTILE)
        assert page.locator("img[src=x]").count() == 0
        page.close()


def test_a_silent_agent_is_shown_as_silent(zygote: Zygote, chromium: Browser, tmp_path: Path) -> None:
    with page_site(zygote, tmp_path, make_snapshot(4, 3), hours=1) as site:
        site.agent.snapshot = None
        page = chromium.new_page()
        page.goto(site.url)
        expect(page.locator("#trouble")).to_contain_text("has just started")
        expect(page.locator("#looked")).to_have_text("no agent answers")
        site.agent.snapshot = make_snapshot(4, 3)
        expect(page.locator("#tile-price")).to_contain_text("52.0")
        expect(page.locator("#trouble")).to_be_hidden()
        site.agent.snapshot = None
        late = chromium.new_page()
        for each in (page, late):
            if each is late:
                late.goto(site.url)
            text = re.compile(r"no agent answers, the page shows 12 Nov 14:30")
            expect(each.locator("#looked")).to_have_text(text)
            each.close()
