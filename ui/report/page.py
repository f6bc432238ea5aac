"""Puts a report together: one HTML page that loads nothing, with plotly's script inside it once."""

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files

from ui.figures_text import length_text
from ui.replay.basis_text import machine_text, prices_text
from ui.report.answer import answer
from ui.report.figure import Figure, Json, Key
from ui.report.html_text import definitions, paragraph
from ui.report.subject import Subject

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "form-action 'none'; base-uri 'none'"
)
"""The browser's own guarantee that the page loads nothing and sends nothing."""


def page(subject: Subject, sections: list[str]) -> str:
    """Return the page: its head, then the sections."""
    return html_page(f"{subject.trace.name}: power and prices", _head(subject), sections)


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
            f"<style>\n{_source('page.css')}</style>\n</head>\n<body>\n<main>",
            head,
            *sections,
            f"</main>\n{scripts}\n</body>\n</html>\n",
        ]
    )


def figure_section(figure: Figure) -> str:
    """Return a figure with its heading, the buttons that it needs, and its caption."""
    label = escape(figure.summary, quote=True)
    return "\n".join(
        [
            f'<section>\n<h2>{escape(figure.heading)}</h2>\n<figure id="{figure.name}">',
            f'<div class="controls">{_choice_buttons(figure)}{_view_buttons(figure.views or {})}</div>',
            _legend(figure.keys),
            f'<div class="plot" role="img" aria-label="{label}" style="height:{figure.layout["height"]}px"></div>',
            *(['<output aria-live="polite"></output>'] if figure.blocks else []),
            f"<figcaption>{escape(figure.caption)}</figcaption>",
            f'<script type="application/json">{figure.json()}</script>\n</figure>\n</section>',
        ]
    )


def _choice_buttons(figure: Figure) -> str:
    if len(figure.choices) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" data-choice="{number}" aria-pressed="{"false" if number else "true"}">'
        f"{escape(name)}</button>"
        for number, name in enumerate(figure.choices)
    )
    return f'<div class="buttons" role="group" aria-label="{figure.choice_of}">{buttons}</div>'


def _view_buttons(views: Mapping[str, Json]) -> str:
    if not views:
        return ""
    buttons = "".join(
        f'<button type="button" data-view="{escape(json.dumps(view))}">{escape(name)}</button>'
        for name, view in views.items()
    )
    return f'<div class="buttons" role="group" aria-label="time shown">{buttons}</div>'


def _legend(keys: tuple[Key, ...]) -> str:
    return '<ul class="legend">' + "".join(f"<li>{_swatch(key)}{escape(key.name)}</li>" for key in keys) + "</ul>"


def _swatch(key: Key) -> str:
    """Return the drawing before a legend's entry."""
    if key.is_area:
        shape = f'<rect width="18" height="12" rx="2" fill="{key.colour}"/>'
    else:
        shape = f'<line x2="30" y1="6" y2="6" stroke="{key.colour}" stroke-width="2.5" stroke-dasharray="{key.dash}"/>'
    return f'<svg width="{18 if key.is_area else 30}" height="12" aria-hidden="true">{shape}</svg>'


def _head(subject: Subject) -> str:
    comparison = subject.comparison
    calendar = subject.calendar
    begin_s, until_s = comparison.begin_s, comparison.until_s
    period = f"{calendar.day_text(begin_s)} to {calendar.day_text(until_s)}, {length_text(until_s - begin_s)}"
    facts = (
        ("log", subject.trace.name),
        ("jobs", f"{len(comparison.case.jobs):,}"),
        (f"{subject.unit}s", f"{comparison.case.machine.size:,}"),
        ("period", period),
        ("prices", prices_text(subject.prepared.basis)),
        ("machine", machine_text(subject.prepared.basis)),
        ("policies", ", ".join(policy.name for policy in subject.policies)),
    )
    return (
        f"<header>\n<h1>{escape(subject.trace.name)}, replayed</h1>\n{paragraph(answer(subject), css_class='answer')}\n"
        f"{definitions(facts)}\n</header>"
    )


def _source(name: str) -> str:
    return (files("ui.report") / name).read_text(encoding="utf-8")
