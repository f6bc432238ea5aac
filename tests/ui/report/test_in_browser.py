"""The report as people meet it: in a browser, on a phone, in the dark and on paper."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from offpeak.model.jobs import LogNames
from offpeak.model.node_states import DEPTHS
from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.write import report_html
from offpeak_studies.workloads.generate import lublin_jobs

Make = Callable[..., ReportSubject]
Open = Callable[..., Page]

FIGURES = ("power", "hours", "cost", "wait", "jobs")
OF_SLEEP = ("trade", "nodes", "weeks", "delays", "cycles")
A4_PX = 688, 1016
"""What the margins leave of a sheet, at 96 dots an inch."""
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"

# The colours of text and of what lies behind it, for every element that has text of its own.
TEXT_COLOURS = """() => {
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
  };
  const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const words = [...document.querySelectorAll("main *:not(script)")].filter(own);
  return words.map((element) => {
    const style = getComputedStyle(element);
    return [element.namespaceURI.endsWith("svg") ? style.fill : style.color, behind(element), element.textContent];
  });
}"""


@dataclass
class Opened:
    """A page, what it complained of, and what it asked for besides itself."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def complaining(context: BrowserContext) -> Opened:
    """Return a new page whose complaints are heard and which reaches nobody."""
    seen = Opened(context.new_page())

    def refuse(route: Route) -> None:
        seen.requests.append(route.request.url)
        route.abort()

    seen.page.route(lambda url: not url.startswith(("file:", "data:", "blob:")), refuse)
    seen.page.on("console", lambda message: seen.complaints.append(message.text))
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on("dialog", lambda dialog: (seen.complaints.append(dialog.message), dialog.dismiss()))
    return seen


@pytest.fixture(scope="module")
def open_report(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Opens the report of a subject until it is drawn; in the end nothing has complained and nothing left the page.

    The same report on the same screen is the same page.
    """
    written: dict[int, tuple[ReportSubject, Path]] = {}
    pages: dict[tuple[int, int, str], Opened] = {}

    def path_of(subject: ReportSubject) -> Path:
        if id(subject) not in written:
            path = tmp_path_factory.mktemp("report") / "r.html"
            path.write_text(report_html(subject), encoding="utf-8")
            written[id(subject)] = subject, path
        return written[id(subject)][1]

    def open_page(subject: ReportSubject, *, width: int = 1200, scheme: str = "light") -> Page:
        key = id(subject), width, scheme
        if key not in pages:
            seen = complaining(chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme))
            pages[key] = seen
            seen.page.goto(path_of(subject).as_uri())
            seen.page.wait_for_selector("html[data-drawn]", state="attached")
            open_all(seen.page)
        return pages[key].page

    yield open_page
    for seen in pages.values():
        seen.page.context.close()
        assert (seen.complaints, seen.requests) == ([], [])


def open_all(page: Page) -> None:
    """Open the folded parts, and wait until their figures are drawn."""
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    page.wait_for_function(
        "[...document.querySelectorAll('.plot')].every((plot) => plot.classList.contains('js-plotly-plot'))"
    )


@pytest.fixture(scope="module")
def hostile(make: Make) -> ReportSubject:
    """Two months of three policies, in which log, users and jobs have hostile names."""
    jobs = lublin_jobs(400, machine_size=32, seed=4, load=0.1)
    users = (HOSTILE,) * (int(jobs.user.max()) + 1)
    names = LogNames(user=users, job={int(job): HOSTILE for job in jobs.job_id})
    return make(jobs, "easy", "greedy", "fcfs", names=names, name=HOSTILE)


@pytest.fixture(scope="module")
def page(open_report: Open, hostile: ReportSubject) -> Page:
    """That report on a desktop."""
    return open_report(hostile)


def marks(page: Page, figure: str) -> list[str]:
    """Return the outlines of what a figure shows, without axes."""
    return page.eval_on_selector_all(
        f"#{figure} .plot .cartesianlayer path", "paths => paths.map((path) => path.getAttribute('d') || '')"
    )


def colour(element: Locator, name: str) -> str:
    """Return what the browser makes of a property of style."""
    value: str = element.evaluate(f"element => getComputedStyle(element).{name}")
    return value


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2) of "rgb(1, 2, 3)"."""
    channels = np.array([float(each) for each in re.findall(r"[\d.]+", colour)[:3]]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(text: str, behind: str) -> float:
    """Return the contrast ratio (WCAG 2.2) of two colours."""
    dark, light = sorted((luminance(text), luminance(behind)))
    return (light + 0.05) / (dark + 0.05)


def test_every_figure_is_drawn_and_names_are_only_text(page: Page) -> None:
    for figure in FIGURES:
        assert sum(len(outline) > 30 for outline in marks(page, figure)) >= 2, figure
    assert page.locator("h1").inner_text() == f"{HOSTILE}, replayed"
    assert page.locator("main img").count() == 0


def test_another_policy_is_drawn_when_it_is_chosen(page: Page) -> None:
    for figure in ("power", "jobs"):
        before = marks(page, figure)
        other = page.locator(f"#{figure} button[aria-pressed=false][data-choice]").last.inner_text()
        button = page.locator(f"#{figure} button", has_text=other)
        button.click()
        assert marks(page, figure) != before
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator(f"#{figure} button[aria-pressed=true]").count() == 1


def test_the_whole_period_is_shown_on_request_and_dragging_zooms(page: Page) -> None:
    shown = "document.querySelector('#power .plot').layout.xaxis.range.map((each) => new Date(each).getTime())"
    first = page.evaluate(shown)
    page.locator("#power button", has_text="whole period").click()
    begin, until = page.evaluate(shown)
    assert until - begin > first[1] - first[0] == 28 * 86_400_000
    box = page.locator("#power .plot").bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 110, steps=5)
    page.mouse.up()
    from_ms, to_ms = page.evaluate(shown)
    assert begin < from_ms < to_ms < until


def test_no_button_sends_a_figure_anywhere(page: Page) -> None:
    titles = page.eval_on_selector_all(".modebar-btn", "buttons => buttons.map((button) => button.dataset.title)")
    assert set(titles) == {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}


def test_figures_follow_the_colour_scheme_and_print_is_light(page: Page) -> None:
    tick, line = page.locator("#hours .xtick text").first, page.locator("#hours .js-line").first
    light = [colour(tick, "fill"), colour(line, "stroke")]
    page.emulate_media(color_scheme="dark")
    expect(tick).not_to_have_css("fill", light[0])
    assert luminance(colour(tick, "fill")) > 0.5 > luminance(light[0])
    assert colour(line, "stroke") != light[1]
    page.emulate_media(media="print", color_scheme="dark")
    expect(tick).to_have_css("fill", light[0])
    assert colour(line, "stroke") == light[1]
    page.emulate_media(media="screen", color_scheme="light")


def test_report_can_be_printed_on_a4(page: Page, tmp_path: Path) -> None:
    page.emulate_media(media="print")
    expect(page.locator("#power .main-svg").first).to_have_css("width", "680px")
    page.pdf(path=tmp_path / "r.pdf", prefer_css_page_size=True)
    assert re.search(rb"/MediaBox \[0 0 59[45]\S* 84[12]", (tmp_path / "r.pdf").read_bytes())
    page.emulate_media(media="screen")


def test_a_report_is_read_in_four_screens_and_its_summary_prints_on_one_sheet(
    chromium: Browser, sleeping: ReportSubject, tmp_path: Path
) -> None:
    path = tmp_path / "r.html"
    path.write_text(report_html(sleeping), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    assert page.evaluate("document.documentElement.scrollHeight") <= 4 * 800
    page.emulate_media(media="print")
    expect(page.locator("#cost .main-svg").first).to_have_css("width", "680px")
    whole = pages_of(page.pdf(prefer_css_page_size=True))
    page.evaluate("document.querySelectorAll('main > :not(.sheet)').forEach((each) => each.remove())")
    assert pages_of(page.pdf(prefer_css_page_size=True)) == 1 < whole
    sheet = page.locator(".sheet")
    assert sheet.locator("figure .main-svg, table, dl").count() >= 4
    page.set_viewport_size({"width": A4_PX[0], "height": A4_PX[1]})
    assert sheet.bounding_box()["height"] <= A4_PX[1]
    page.close()


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.parametrize(("name", "scheme"), [("hostile", "light"), ("sleeping", "dark")])
def test_axe_finds_nothing(request: pytest.FixtureRequest, open_report: Open, name: str, scheme: str) -> None:
    page = open_report(request.getfixturevalue(name), scheme=scheme)
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]})
    assert found.violations_count == 0, found.generate_report()
    labels = page.eval_on_selector_all(".plot", "plots => plots.map((plot) => plot.ariaLabel)")
    assert all(len(label) > 30 for label in labels)


def test_on_peak_hours_lie_behind_power_and_price(page: Page) -> None:
    layers = page.evaluate(
        """() => [...document.querySelectorAll('#power .cartesianlayer > g, #power .cartesianlayer .overplot > g')]
            .filter((each) => each.querySelector('.scatterlayer path'))
            .map((each) => each.classList[1] ?? each.classList[0])"""
    )
    assert {"xy3", "xy"} <= set(layers), layers
    assert layers.index("xy3") < layers.index("xy")
    assert layers.index("xy4") < layers.index("xy2")


def test_the_cheapest_policy_is_shown_first(page: Page, hostile: ReportSubject) -> None:
    cheapest = min(hostile.comparison.outcomes, key=lambda outcome: outcome.cost).policy
    for figure in ("power", "jobs"):
        first = page.locator(f"#{figure} button[data-choice]").first
        assert (first.inner_text(), first.get_attribute("data-choice")) == (cheapest, str(hostile.cheapest))


def test_one_palette_colours_page_and_reports(page: Page, repository: Path) -> None:
    palette = (repository / "services" / "page" / "palette.css").read_text()
    light, dark = (set(re.findall(r"(--[\w-]+):", part)) for part in palette.split("@media"))
    assert light == dark
    shown = page.locator("style").first.inner_text().lstrip()
    assert shown.startswith(palette)
    rules = [
        file for room in ("services/page", "ui/report", "ui/plan", "ui/month") for file in (repository / room).iterdir()
    ]
    used = {name for file in rules if file.is_file() for name in re.findall(r"var\((--[\w-]+)\)", file.read_text())}
    own = {"--size", "--columns", "--name", *(f"--{name}" for name in DEPTHS)}
    assert used - own <= light
    assert not re.search(r"#[0-9a-f]{6}", shown.removeprefix(palette))


@pytest.mark.parametrize("width", [390, 1600])
def test_report_is_no_wider_than_the_screen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for figure in FIGURES:
        plot, drawn = (page.locator(f"#{figure} {part}").first for part in (".plot", ".main-svg"))
        expect(drawn).to_have_css("width", colour(plot, "width"))
        box = drawn.bounding_box()
        assert 0 < box["x"] < box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1200, "height": 800})


def test_pointing_at_a_job_tells_which_it_is(make: Make, open_report: Open) -> None:
    jobs = make(1, "easy").comparison.case.jobs
    page = open_report(make(jobs.with_size(np.array([32])), "easy"))
    plot, output = page.locator("#jobs .plot"), page.locator("#jobs output")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    expect(output).to_contain_text("job 1, user ")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 10)
    expect(output).to_be_empty()


def test_a_report_of_one_job_without_a_date(make: Make, open_report: Open) -> None:
    page = open_report(make(1, "easy", unix_start_s=None, time_zone=None), width=390)
    for figure in FIGURES:
        assert any(len(outline) > 10 for outline in marks(page, figure)), figure
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(("width", "scheme"), [(1200, "dark"), (390, "light")])
def test_figures_of_nodes_that_sleep_are_drawn_within_the_screen(
    sleeping: ReportSubject, open_report: Open, width: int, scheme: str
) -> None:
    page = open_report(sleeping, width=width, scheme=scheme)
    for figure in (*FIGURES, *OF_SLEEP):
        assert sum(len(outline) > 10 for outline in marks(page, figure)) >= 2, figure
        box = page.locator(f"#{figure} .main-svg").first.bounding_box()
        assert 0 < box["x"] < box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = page.evaluate(TEXT_COLOURS)
    assert len(colours) > 100
    assert [(text, ink, paper) for ink, paper, text in colours if contrast(ink, paper) < 4.5] == []


def test_names_beside_the_trade_lie_apart_and_inside(sleeping: ReportSubject, open_report: Open) -> None:
    page = open_report(sleeping, width=390)
    edge = page.locator("#trade .main-svg").first.bounding_box()
    names = page.locator("#trade .annotation text")
    assert sorted(names.all_text_contents()) == ["always-on", "energy-aware", "timeout:5min", "two-level:23"]
    boxes = sorted((locator.bounding_box() for locator in names.all()), key=lambda box: box["y"])
    assert all(box["x"] + box["width"] <= edge["x"] + edge["width"] for box in boxes)
    assert all(below["y"] - above["y"] >= 12 for above, below in pairwise(boxes))


def test_the_axis_of_the_trade_is_chosen_by_keyboard(sleeping: ReportSubject, open_report: Open) -> None:
    page = open_report(sleeping)
    title = page.locator("#trade .xtitle")
    assert title.inner_html() == "mean slowdown"
    before = marks(page, "trade")
    page.locator("#trade button", has_text="mean delay by sleep").focus()
    page.keyboard.press("Enter")
    expect(title).to_have_text("mean delay")
    assert marks(page, "trade") != before
    page.locator("#nodes button", has_text="energy-aware").press("Enter")
    assert page.locator("#nodes button[aria-pressed=true]").inner_text() == "easy energy-aware"
