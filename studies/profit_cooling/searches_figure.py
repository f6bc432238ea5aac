"""The study's second figure, after the paper's figures 5 to 8: what each search gains over the default search."""

from studies.energy_carbon.svg import WIDTH, svg, text
from studies.profit_cooling.paper import PAPER
from studies.profit_cooling.scenario import SCENARIOS
from studies.profit_cooling.tables import Results, gain_pct

COLOURS = {"multi": "#1f62a8", "relaxation": "#6aa84f", "delay": "#8e44ad", "neighbourhood": "#c4570b"}
LEFT, HEAD, PANEL, BAR, ROW = 150, 44, 30, 16, 22


def searches_svg(results: Results, searches: tuple[str, ...]) -> str:
    """Return the figure: a panel a scenario, a bar a search, per cent of profit; the paper's figure is in words."""
    gains = {scenario: _gains(results, scenario, searches) for scenario in SCENARIOS}
    most = max(abs(gain) for each in gains.values() for gain in each.values()) or 1.0
    height, parts = HEAD, [text("Profit above the default search's, per cent", 10, 22)]
    for scenario, each in gains.items():
        paper = PAPER[scenario]
        said = f"{scenario} (paper: {paper.best_search} {paper.over_default_pct:.1f} %)"
        parts.append(text(said, 10, height + 18))
        for row, (search, gain) in enumerate(each.items()):
            parts.append(_bar(search, gain, most, height + PANEL + ROW * row))
        height += PANEL + ROW * len(each) + 12
    return svg(height, parts)


def _gains(results: Results, scenario: str, searches: tuple[str, ...]) -> dict[str, float]:
    default = results[scenario, "default"].profit_then
    return {search: gain_pct(results[scenario, search].profit_then, default) for search in searches}


def _bar(search: str, gain: float, most: float, y: float) -> str:
    width = round((WIDTH - LEFT - 90) * abs(gain) / most, 1)
    bar = f'<rect x="{LEFT}" y="{y}" width="{width}" height="{BAR}" fill="{COLOURS[search]}"/>'
    return bar + text(search, LEFT - 8, y + 13, anchor="end") + text(f"{gain:.2f}", LEFT + width + 6, y + 13)
