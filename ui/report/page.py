"""Assemble a report: a single offline HTML page that contains plotly's script once.

The page starts with the answer: whether another policy would have been cheaper, and how much longer users would have
waited. Text becomes HTML only here, so a job's name can never be markup.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from offpeak.display import duration_text, figure, percent_text
from offpeak.files import replacing
from offpeak.report_tables import Report, cell_text
from offpeak.sim_backend.comparison.outcome import PolicyOutcome
from offpeak.sim_backend.comparison.replications import ReplicationSpread
from offpeak.ui.replay.comparison import prices_text
from offpeak.ui.replay.tables import quoted_text
from offpeak.ui.report.figure import Figure, Key
from offpeak.ui.report.subject import ReportSubject


@dataclass(frozen=True)
class HtmlCell:
    """A figure in a table, with its interval in small type below and a mark such as "not significant"."""

    text: str
    interval: str = ""
    mark: str = ""


def paragraph(text: str, *, css_class: str = "") -> str:
    """Return a paragraph."""
    return f'<p class="{css_class}">{escape(text)}</p>' if css_class else f"<p>{escape(text)}</p>"


def page_head(title: str, answer: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return the head of a page: title, answer with its first sentence in large type, and facts."""
    first, _, rest = answer.partition(". ")
    parts = [paragraph(f"{first}." if rest else first, css_class="answer"), *([paragraph(rest)] if rest else [])]
    return "\n".join([f"<header>\n<h1>{escape(title)}</h1>", *parts, definitions(facts), "</header>"])


def section(heading: str, *parts: str) -> str:
    """Return a section under its heading."""
    return "\n".join(["<section>", f"<h2>{escape(heading)}</h2>", *parts, "</section>"])


def bullets(lines: Iterable[str]) -> str:
    """Return a list."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def definitions(terms: Iterable[tuple[str, str]]) -> str:
    """Return a list of terms with their definitions."""
    return "<dl>" + "".join(f"<div><dt>{escape(t)}</dt><dd>{escape(d)}</dd></div>" for t, d in terms) + "</dl>"


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[HtmlCell | str]], *, texts: int = 1) -> str:
    """Return a table that scrolls by itself: row names, then the first `texts` columns as text, others figures."""
    head = "".join(f'<th scope="col"{_text_class(at < texts)}>{escape(each)}</th>' for at, each in enumerate(headers))
    body = "".join(_row(row, texts) for row in rows)
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table><caption>{escape(caption)}'
        f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[HtmlCell | str], texts: int) -> str:
    first, *others = row
    cells = "".join(f"<td{_text_class(at < texts)}>{_cell(cell)}</td>" for at, cell in enumerate(others, 1))
    return f'<tr><th scope="row" class="text">{_cell(first)}</th>{cells}</tr>'


def _text_class(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def _cell(cell: HtmlCell | str) -> str:
    if isinstance(cell, str):
        return escape(cell)
    interval = f" <small>({escape(cell.interval)})</small>" if cell.interval else ""
    mark = f" <em>{escape(cell.mark)}</em>" if cell.mark else ""
    return escape(cell.text) + interval + mark


HARDLY_PCT = 0.05
"""Below this a saving is rounded to 0.0 %."""

WITHOUT_CENTS = 100


def answer(subject: ReportSubject) -> str:
    """Return the result of the cheapest of the other policies, compared with the baseline.

    Its figures are those of the table below it: means or medians over the replays where there are several.
    """
    baseline, *others = subject.figures
    if not others:
        return f"{_alone(subject, baseline)}{_asleep([baseline], named=baseline)}{_quoted(subject.spreads)}"
    cheapest = max(others, key=lambda outcome: outcome.saved)
    asleep = _asleep(subject.figures, named=cheapest)
    money = f"{_money(cheapest)}{_range(subject.spreads, cheapest.policy)}"
    return f"{money}; {_waiting(baseline, cheapest)}.{asleep}{_quoted(subject.spreads)}"


def _alone(subject: ReportSubject, outcome: PolicyOutcome) -> str:
    length = duration_text(outcome.until_s - subject.comparison.begin_s)
    return (
        f"Under {outcome.policy} the electricity of {length} would have cost {figure(outcome.cost)} "
        f"{outcome.currency}, and jobs would have waited {duration_text(outcome.mean_wait_s)} on average. "
        "A second policy, such as --policy easy,greedy, would show what can be saved."
    )


def _money(other: PolicyOutcome) -> str:
    baseline = other.baseline or other
    difference = abs(other.saved)
    amount = f"{difference:,.{0 if difference >= WITHOUT_CENTS else 2}f}"
    share = percent_text(abs(other.saving_pct), 1)
    of = f"of {figure(baseline.cost)} {other.currency}"
    if abs(other.saving_pct) < HARDLY_PCT:
        sign = "less" if other.cost <= baseline.cost else "more"
        return f"With {other.policy}, electricity would have cost nearly the same ({amount} {sign} {of})"
    if other.saving_pct < 0:
        return (
            f"No policy would have been cheaper than {baseline.policy}: with {other.policy}, electricity would have "
            f"cost {share} more ({amount} on top {of})"
        )
    return f"With {other.policy}, electricity would have cost {share} less than with {baseline.policy} ({amount} {of})"


def _range(spreads: tuple[ReplicationSpread, ...], policy: str) -> str:
    spread = next((spread for spread in spreads if spread.policy == policy), None)
    if spread is None:
        return ""
    saving = spread.figures["saving_pct"]
    what = "a difference that is not significant: it saves" if saving.has_either_sign else "a saving of"
    where = "in 19 of 20 replays" if spread.alignments == 1 else "on 19 of 20 weeks of the prices"
    return f", {what} {saving.low:z.2f} to {percent_text(saving.high, 2)} {where}"


def _quoted(spreads: tuple[ReplicationSpread, ...]) -> str:
    return f" Figures are {quoted_text(spreads[0])}." if spreads else ""


def _waiting(baseline: PolicyOutcome, other: PolicyOutcome) -> str:
    before_s, after_s = baseline.mean_wait_s, other.mean_wait_s
    verb, before, after = "fell" if after_s < before_s else "rose", duration_text(before_s), duration_text(after_s)
    wait = f"the mean wait {verb} from {before} to {after}" if before != after else f"the mean wait stayed at {after}"
    if other.worst_postponement_s <= 0:
        return f"{wait}; no job started later"
    return f"{wait}; the most delayed job started {duration_text(other.worst_postponement_s)} later"


def _asleep(outcomes: Sequence[PolicyOutcome], *, named: PolicyOutcome) -> str:
    """Return the effect of sleeping nodes under the cheapest policy with sleeping nodes, if there is one."""
    sleepers = [outcome for outcome in outcomes if outcome.asleep_share]
    if not sleepers:
        return ""
    outcome = max(sleepers, key=lambda outcome: outcome.saved)
    saved_pct, delayed_share = outcome.idle_saved_pct or 0.0, outcome.delayed_share or 0.0
    captured = percent_text(outcome.captured_pct or 0.0)
    saved = f"saved {percent_text(saved_pct, 1)} of the idle energy ({captured} of what was possible)"
    if saved_pct < 0:
        saved = f"drawn {percent_text(-saved_pct, 1)} more than idle ones"
    under = "Its" if outcome is named else f"Under {outcome.policy},"
    held_up = "no job would have waited for them"
    if delayed_share:
        # The mean delay is that of all jobs.
        mean_s = outcome.mean_sleep_delay_s or 0.0
        held_up = (
            f"waiting for them would have held up {percent_text(100 * delayed_share)} of the jobs, these by"
            f" {duration_text(mean_s / delayed_share)} on average, all jobs by {duration_text(mean_s)}"
        )
    return f" {under} sleeping nodes would have {saved}; {held_up}."


POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)
"""The browser's own guarantee that the page loads nothing and sends nothing."""


def page(subject: ReportSubject, summary: list[str], sections: list[str]) -> str:
    """Return the page: a sheet with its head and the summary, then the sections."""
    comparison = subject.comparison
    calendar = subject.calendar
    begin_s, until_s = comparison.begin_s, comparison.outcomes[0].until_s
    period = f"{calendar.day_text(begin_s)} to {calendar.day_text(until_s)}, {duration_text(until_s - begin_s)}"
    facts = (
        ("log", subject.trace.name),
        ("jobs", f"{len(comparison.case.jobs):,}"),
        (f"{subject.unit}s", f"{comparison.case.machine.size:,}"),
        ("period", period),
        ("prices", prices_text(subject.prepared.basis)),
    )
    sheet = "\n".join(
        [
            '<div class="sheet">',
            page_head(f"{subject.trace.name}, replayed", answer(subject), facts),
            *summary,
            "</div>",
        ]
    )
    return html_page(f"{subject.trace.name}: power and prices", sheet, sections)


def beside(*sections: str) -> str:
    """Return sections that stand beside each other where the screen is wide enough."""
    return "\n".join(['<div class="figures">', *sections, "</div>"])


def folded(heading: str, *sections: str) -> str:
    """Return sections that open on request, and in print."""
    return f"<details>\n<summary><h2>{escape(heading)}</h2></summary>\n{beside(*sections)}\n</details>"


def html_page(title: str, head: str, sections: list[str]) -> str:
    """Return a page with this title, the sections below its head, and the scripts that draw their figures."""
    from plotly.offline import get_plotlyjs

    return still_page(
        title, head, sections, f"<script>{get_plotlyjs()}</script>\n<script>\n{_source('page.js')}</script>"
    )


def still_page(title: str, head: str, sections: list[str], scripts: str = "") -> str:
    """Return a page without figures that a script draws, unless there are `scripts`."""
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_source('palette.css', 'offpeak.services.page')}{_source('page.css')}</style>",
            "</head>\n<body>\n<main>",
            head,
            *sections,
            f"</main>\n{scripts}\n</body>\n</html>\n",
        ]
    )


def write_study_page(report: Report, path: Path) -> None:
    """Write the report as one HTML page. Raises CannotWrite."""
    parts = [f'<div class="sheet"><header>\n<h1>{escape(report.title)}</h1>\n{bullets(report.notes)}\n</header>']
    for name, svg in report.figures.items():
        label = f"{escape(Path(name).stem.replace('-', ' '), quote=True)}; its values are in the tables"
        parts.append(f'<figure role="img" aria-label="{label}">{svg[svg.index("<svg") :]}</figure>')
    for of in report.tables:
        texts = sum(all(isinstance(row[at], str) for row in of.rows) for at in range(len(of.headers)))
        rows = [[cell_text(cell) for cell in row] for row in of.rows]
        parts.append(section(of.title, paragraph(of.note), table(of.title, of.headers, rows, texts=texts)))
    with replacing(path) as file:
        file.write(still_page(report.title, parts[0], [*parts[1:], "</div>"]).encode())


def figure_section(figure: Figure) -> str:
    """Return a figure with its heading, the buttons that it needs, and its caption."""
    label = escape(figure.summary, quote=True)
    shown_first = sorted(enumerate(figure.choices), key=lambda choice: choice[0] != figure.shown)
    attributes = 'data-choice="{}" aria-pressed="{}"'
    choices = [(attributes.format(at, str(at == figure.shown).lower()), name) for at, name in shown_first]
    views = [(f'data-view="{escape(json.dumps(view))}"', name) for name, view in (figure.views or {}).items()]
    return "\n".join(
        [
            f'<section>\n<h2>{escape(figure.heading)}</h2>\n<figure id="{figure.name}">',
            f'<div class="controls">{_buttons(figure.choice_of, choices)}{_buttons("time shown", views)}</div>',
            legend(figure.keys),
            f'<div class="plot" role="group" aria-label="{label}" style="height:{figure.layout["height"]}px"></div>',
            *(['<output aria-live="polite"></output>'] if figure.blocks else []),
            f"<figcaption>{escape(figure.caption)}</figcaption>",
            f'<script type="application/json">{figure.json()}</script>\n</figure>\n</section>',
        ]
    )


def _buttons(label: str, buttons: Iterable[tuple[str, str]]) -> str:
    """Return a group of buttons by their attributes and names, none if there is no choice."""
    shown = [f'<button type="button" {attributes}>{escape(name)}</button>' for attributes, name in buttons]
    return f'<div class="buttons" role="group" aria-label="{label}">{"".join(shown)}</div>' if len(shown) > 1 else ""


def legend(keys: tuple[Key, ...]) -> str:
    """Return the legend of a figure."""
    entries = []
    for key in keys:
        width, shape = 18, f'<rect width="18" height="12" rx="2" fill="{key.colour}"/>'
        if not key.is_area:
            look = f'stroke="{key.colour}" stroke-width="2.5" stroke-dasharray="{key.dash}"'
            width, shape = 30, f'<line x2="30" y1="6" y2="6" {look}/>'
        swatch = f'<svg width="{width}" height="12" aria-hidden="true">{shape}</svg>'
        entries.append(f"<li>{swatch}{escape(key.name)}</li>")
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _source(name: str, package: str = "offpeak.ui.report") -> str:
    return (files(package) / name).read_text(encoding="utf-8")
