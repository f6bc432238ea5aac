"""Known prices as a picture: one HTML file that needs no network, or a PNG."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput, CannotWrite
from offpeak.installation import missing_extra
from ui.prices.text import KnownPrices

KINDS = (".html", ".png")
WIDTH_IN, HEIGHT_IN, DPI = 9.0, 3.5, 120


def check_plot(path: Path) -> None:
    """Raise BadInput unless the file's ending says how to draw, and what draws it is installed."""
    if path.suffix.lower() not in KINDS:
        raise BadInput(
            f"--plot {path}: {path.suffix or 'no ending'} is no kind of picture", hint="end in .html or .png"
        )
    if path.suffix.lower() == ".png" and find_spec("matplotlib") is None:
        raise missing_extra(f"--plot {path}", "png", "matplotlib")


def write_plot(prices: KnownPrices, path: Path) -> None:
    """Draw the prices as steps; CannotWrite where the file cannot be."""
    draw = _html if path.suffix.lower() == ".html" else _png
    try:
        draw(prices, path)
    except OSError as problem:
        raise CannotWrite(f"{path}: {problem.strerror}", hint="choose another folder") from None


def _title(prices: KnownPrices) -> str:
    return f"{prices.zone or prices.known.source}: {prices.basis}"


def _steps(prices: KnownPrices) -> tuple[np.ndarray, np.ndarray]:
    """Return the instants as local clock times, and the value from each on."""
    from offpeak.model.local_time import to_local_s

    series = prices.series
    local_s = to_local_s(np.append(series.start_s, series.end_s), prices.clock)
    return local_s.astype("datetime64[s]"), np.append(series.value, series.value[-1])


def _html(prices: KnownPrices, path: Path) -> None:
    from plotly.graph_objects import Figure, Scatter

    at, value = _steps(prices)
    figure = Figure(Scatter(x=at, y=value, line={"shape": "hv"}))
    figure.update_layout(title=_title(prices), yaxis_title=prices.series.unit, template="plotly_white")
    figure.write_html(path, include_plotlyjs=True, config={"displayModeBar": False})


def _png(prices: KnownPrices, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
    axes = figure.add_subplot()
    at, value = _steps(prices)
    axes.step(at, value, where="post")
    axes.set(title=_title(prices), ylabel=prices.series.unit)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=DPI)
