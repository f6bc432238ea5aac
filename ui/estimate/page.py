"""The page of `offpeak estimate --report`: what pays, on one sheet of A4 for those who decide."""

from html import escape
from pathlib import Path

from offpeak.files import replacing
from ui.estimate.text import (
    CAPABILITIES,
    LeversAnswer,
    assumed_prices_lines,
    assumptions,
    fragment,
    headline,
    lever_cells,
    lever_headers,
    lever_lines,
    sureness,
    unmeasured_lines,
    use_lines,
    verdict,
)
from ui.replay.comparison import machine_text, prices_text
from ui.report.page import HtmlCell, bullets, definitions, paragraph, section, still_page, table


def write_estimate_page(path: Path, answer: LeversAnswer) -> None:
    """Write the page; raise CannotWrite on failure, without a partial file."""
    with replacing(path) as file:
        file.write(estimate_page(answer).encode())


def estimate_page(answer: LeversAnswer) -> str:
    """Return the page as HTML."""
    estimate = answer.estimate
    basis = estimate.prepared.basis
    rows = [
        [HtmlCell(f"{CAPABILITIES[saving.capability]}: {saving.policy}"), *map(HtmlCell, lever_cells(saving))]
        for saving in answer.savings
    ]
    facts = (("log", headline(estimate)), ("prices", prices_text(basis)), ("machine", machine_text(basis)))
    head = "\n".join(
        [
            f"<header>\n<h1>{escape(estimate.trace.name)}: what pays</h1>",
            *(paragraph(line) for line in assumed_prices_lines(estimate)),
            _hero(answer),
            paragraph(verdict(answer), css_class="answer"),
            f"{definitions(facts)}\n</header>",
        ]
    )
    settings = fragment(answer)
    caption, headers = "saved against the operation of today", ("lever", *lever_headers(estimate.used.currency))
    assumed = (*use_lines(estimate.used), *lever_lines(answer.levers), *assumptions(estimate))
    recommended = section("Recommended settings", f'<pre class="command">{escape(settings)}</pre>')
    sections = [
        section(
            "All levers, in order of money",
            table(caption, headers, rows),
            *map(paragraph, unmeasured_lines(answer.levers)),
        ),
        *([recommended] if settings else []),
        section("How sure is this?", bullets(sureness(estimate))),
        section("What was used, and what is assumed", bullets(assumed)),
    ]
    return still_page(f"{estimate.trace.name}: what pays", f'<div class="sheet">{head}', [*sections, "</div>"])


def _hero(answer: LeversAnswer) -> str:
    """Return the yearly saving in large type; "" if none is claimed."""
    best = answer.recommended
    if best is None or not fragment(answer):
        return ""
    money = best.saving.a_year
    low, high = (f"{value:,.0f}" for value in (money.low, money.high))
    text = f"{money.middle:,.0f} {answer.estimate.used.currency} a year"
    return f'<p class="hero">{escape(text)} <small>19 of 20 replays: {low} to {high}</small></p>'
