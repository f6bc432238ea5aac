"""The study's figure: what is saved of the jobs' cost by how much longer they wait, a line a log through the SLAs."""

from collections.abc import Sequence

from studies.online_simulation.colours import LOG_COLOURS, WIDTH, keys, svg, tick_step, title
from studies.price_capacity.answers import Answers
from studies.price_capacity.experiment import BLIND, SLAS, profile
from studies.price_capacity.plan import START
from studies.report import Range

LEFT, TOP, PLOT, FOOT, RIGHT = 60, 70, 330, 50, 30


def trade_svg(answers: Answers, logs: Sequence[str]) -> str:
    """Return the figure: dots are means, upright lines reach from the lowest to the highest replay."""
    points = {(log, policy): _point(answers, log, policy) for log in logs for policy in (*map(profile, SLAS), BLIND)}
    plot = _Plot(
        most_h=max(hours for hours, _ in points.values()) * 1.08,
        low=min(0.0, *(saved.low for _, saved in points.values())),
        high=max(saved.high for _, saved in points.values()),
    )
    colours = {log: LOG_COLOURS[at % len(LOG_COLOURS)] for at, log in enumerate(logs)}
    parts = [keys(colours, 22), title("saved of the jobs' energy cost [%]", LEFT, TOP - 14), plot.grid()]
    for log, colour in colours.items():
        line = " ".join(plot.place(*points[log, profile(sla)]) for sla in SLAS)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}"/>')
        parts += [plot.dot(*points[log, profile(sla)], f"{sla:g}", colour, colour) for sla in SLAS]
        parts.append(plot.dot(*points[log, BLIND], "blind", colour, "#fff"))
    return svg(TOP + PLOT + FOOT, parts)


def _point(answers: Answers, log: str, policy: str) -> tuple[float, Range]:
    longer = answers.of(log, START, lambda result: result.longer_h(policy))
    return longer.mean, answers.of(log, START, lambda result: result.job_saved_pct(policy))


class _Plot:
    """Hours to the right from 0 to `most_h`, per cent up from `low` to `high`, in pixels."""

    def __init__(self, *, most_h: float, low: float, high: float) -> None:
        self.most_h, self.low, self.high = max(most_h, 1e-9), low, max(high, low + 1e-9)

    def x(self, hours: float) -> float:
        """Return where a wait lies."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * hours / self.most_h, 1)

    def y(self, pct: float) -> float:
        """Return where a saving lies."""
        return round(TOP + PLOT * (self.high - pct) / (self.high - self.low), 1)

    def place(self, hours: float, saved: Range) -> str:
        """Return a point of a line."""
        return f"{self.x(hours)},{self.y(saved.mean)}"

    def dot(self, hours: float, saved: Range, label: str, colour: str, fill: str) -> str:
        """Return a dot with its range and its label."""
        x, y = self.x(hours), self.y(saved.mean)
        return (
            f'<line x1="{x}" x2="{x}" y1="{self.y(saved.low)}" y2="{self.y(saved.high)}" stroke="{colour}"/>'
            f'<circle cx="{x}" cy="{y}" r="5" fill="{fill}" stroke="{colour}"/>'
            f'<text x="{x + 8}" y="{y - 6}">{label}</text>'
        )

    def grid(self) -> str:
        """Return the grid lines with their figures."""
        across, up = tick_step(self.most_h), tick_step(self.high - self.low)
        first = -int(-self.low / up + 1e-9)
        hours = [across * at for at in range(int(self.most_h / across) + 1)]
        shares = [up * at for at in range(first, int(self.high / up) + 1)]
        bottom, right = TOP + PLOT, WIDTH - RIGHT
        lines = [
            f'<line x1="{self.x(hour)}" x2="{self.x(hour)}" y1="{TOP}" y2="{bottom}" stroke="#ddd"/>'
            f'<text x="{self.x(hour)}" y="{bottom + 18}" text-anchor="middle">{hour:g}</text>'
            for hour in hours
        ]
        lines += [
            f'<line x1="{LEFT}" x2="{right}" y1="{self.y(pct)}" y2="{self.y(pct)}" stroke="#ddd"/>'
            f'<text x="{LEFT - 8}" y="{self.y(pct) + 4}" text-anchor="end">{pct:g}</text>'
            for pct in shares
        ]
        caption = (
            f'<text x="{right}" y="{bottom + 38}" text-anchor="end">mean wait longer by [h]; labels are SLAs</text>'
        )
        return "".join(lines) + caption
