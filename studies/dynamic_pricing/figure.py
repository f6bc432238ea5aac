"""The study's figure: the ladder of each log as an SVG text, with the paper's savings as upright lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from studies.dynamic_pricing.plan import PricingSubject, ladder_of
from studies.dynamic_pricing.tables import GREEDY, KNAPSACK, PricingResults
from studies.report import Range

WIDTH, LEFT, RIGHT = 900, 400, 30
ROW, HEAD, FOOT = 30, 62, 34
COLOURS = {"greedy": "#c4570b", "knapsack": "#1f62a8"}
PLACES = {"greedy": GREEDY, "knapsack": KNAPSACK}
STEP_PCT = 2


def ladder_svg(answers: PricingResults, subjects: Sequence[PricingSubject]) -> str:
    """Return the figure: a panel a log, a row a rung, a mark a policy with the range of its replays."""
    panels, top = [], 10
    for subject in subjects:
        rungs = _rungs(answers, subject)
        panels.append(f'<g transform="translate(0 {top})">{_panel(subject, rungs)}</g>')
        top += HEAD + ROW * len(rungs) + FOOT
    style = 'font-family="sans-serif" font-size="13" fill="#222"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" {style}>'
        f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>{"".join(panels)}</svg>\n'
    )


def _rungs(answers: PricingResults, subject: PricingSubject) -> list[tuple[str, dict[str, Range]]]:
    steps = [("starting point", subject.base)]
    steps += [(f"+ {change.what}: {change.how}", variant) for change, variant in ladder_of(subject)]
    return [
        (label, {policy: answers.saved(subject, variant, place) for policy, place in PLACES.items()})
        for label, variant in steps
    ]


def _panel(subject: PricingSubject, rungs: list[tuple[str, dict[str, Range]]]) -> str:
    theirs = {policy: subject.paper.savings[3.0, policy][0] if subject.paper else None for policy in PLACES}
    reached = [saved for _, by_policy in rungs for saved in by_policy.values()]
    low = min(0.0, *(saved.low for saved in reached))
    high = max(*(saved.high for saved in reached), *(figure or 0.0 for figure in theirs.values()))
    scale = _Scale(low, high, HEAD + ROW * len(rungs))
    marks = "".join(_row(scale, number, *rung) for number, rung in enumerate(rungs))
    lines = "".join(scale.upright(figure, COLOURS[policy]) for policy, figure in theirs.items() if figure is not None)
    return _title(subject) + scale.axis() + lines + marks


def _title(subject: PricingSubject) -> str:
    keys = "".join(
        f'<circle cx="{LEFT + 100 * at}" cy="38" r="5" fill="{COLOURS[policy]}"/>'
        f'<text x="{LEFT + 10 + 100 * at}" y="42">{policy}</text>'
        for at, policy in enumerate(PLACES)
    )
    paper = f'<text x="{LEFT + 210}" y="42">dashed: the paper on {subject.paper.name}</text>' if subject.paper else ""
    return f'<text x="10" y="20" font-size="15" font-weight="bold">{escape(subject.name)}</text>{keys}{paper}'


def _row(scale: "_Scale", number: int, label: str, saved: dict[str, Range]) -> str:
    middle = HEAD + ROW * number + ROW // 2
    marks = "".join(
        f'<line x1="{scale.x(each.low)}" x2="{scale.x(each.high)}" y1="{y}" y2="{y}" stroke="{COLOURS[policy]}"/>'
        f'<circle cx="{scale.x(each.mean)}" cy="{y}" r="5" fill="{COLOURS[policy]}"/>'
        for y, (policy, each) in zip((middle - 6, middle + 6), saved.items(), strict=True)
    )
    return f'<text x="10" y="{middle + 4}">{escape(label)}</text>{marks}'


@dataclass(frozen=True)
class _Scale:
    """Per cent to pixels, from `low` to `high`, over a panel whose rows end at `bottom`."""

    low: float
    high: float
    bottom: int

    def x(self, pct: float) -> float:
        """Return where a saving lies."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (pct - self.low) / max(self.high - self.low, 1e-9), 1)

    def axis(self) -> str:
        """Return upright grid lines with their figures."""
        first = -int(-self.low // STEP_PCT) * STEP_PCT
        steps = range(first, int(self.high) + 1, STEP_PCT)
        return "".join(
            f'<line x1="{self.x(pct)}" x2="{self.x(pct)}" y1="{HEAD}" y2="{self.bottom}" stroke="#ddd"/>'
            f'<text x="{self.x(pct)}" y="{self.bottom + 18}" text-anchor="middle">{pct} %</text>'
            for pct in steps
        )

    def upright(self, pct: float, colour: str) -> str:
        """Return a dashed line at a saving."""
        at = self.x(pct)
        return f'<line x1="{at}" x2="{at}" y1="{HEAD}" y2="{self.bottom}" stroke="{colour}" stroke-dasharray="6 4"/>'
