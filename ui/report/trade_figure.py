"""What each policy trades: idle energy saved for slowdown, or for jobs held up by sleeping nodes."""

import numpy as np

from offpeak.model.arrays import Float64
from sim_backend.figures import pareto_front
from ui.clock_text import clock_text
from ui.report.figure import Figure, Json, Key, axis, line, name_text, packed
from ui.report.side_labels import ROW_PX, label_heights, label_margin_px, labels, leaders
from ui.report.subject import Policy, Subject
from ui.report.trade_axes import Loss, delay_loss, slowdown_loss

FRONT_KEY = Key("no policy is better in both", "var(--running)")
POSSIBLE_KEY = Key("possible, were the future known", "var(--price)", "8 4")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "star")
HEIGHT_PX, MARGIN_TOP_PX, MARGIN_BOTTOM_PX = 470, 30, 48
SMALLEST_PX, GROWTH_PX = 9, 10


def trade_figure(subject: Subject) -> Figure:
    """Return the figure, all policies in it as points."""
    saved = np.array([policy.sleep.figures.idle_saved_pct for policy in subject.policies])
    possible = np.array([possible_saving_pct(policy) for policy in subject.policies])
    names = short_names([policy.name for policy in subject.policies])
    low, high = min(float(saved.min()), 0.0) - 4, max(float(np.append(saved, possible).max()), 10.0) + 4
    room_px = HEIGHT_PX - MARGIN_TOP_PX - MARGIN_BOTTOM_PX
    heights = label_heights(saved, low=low + 2, high=high - 2, gap=(high - low) * ROW_PX / room_px)
    losses = (slowdown_loss(subject), delay_loss(subject))
    return Figure(
        name="trade",
        heading="What each policy trades",
        summary="Idle energy saved over slowdown or delay, a point for each policy.",
        caption="Up is better, and so is left. The larger a point, the more often its nodes cycle. The dashed line is "
        "what could have been saved with the same starts of jobs, had it been known when each node is needed next.",
        keys=(FRONT_KEY, POSSIBLE_KEY),
        data=[
            trace | {"meta": {"choice": number}}
            for number, loss in enumerate(losses)
            for trace in (
                leaders(loss.value, saved, loss.right, heights),
                _possible(loss, possible),
                _front(loss, saved),
                _points(subject, loss, saved),
            )
        ],
        layout={
            "height": HEIGHT_PX,
            "margin": {"l": 56, "r": label_margin_px(names), "t": MARGIN_TOP_PX, "b": MARGIN_BOTTOM_PX},
            "hovermode": "closest",
            "yaxis": axis("idle energy saved [%]", range=[low, high], fixedrange=True),
            "annotations": labels(names, heights),
        },
        choices=tuple(loss.name for loss in losses),
        choice_of="horizontal axis",
        choice_layouts=tuple({"xaxis": loss.axis} for loss in losses),
    )


def possible_saving_pct(policy: Policy) -> float:
    """Return the share of idle nodes' energy that could have been saved with the policy's starts [%]."""
    always_on_j = policy.sleep.figures.always_on_idle_j
    return 100 * (always_on_j - policy.sleep.lowest_energy.idle) / always_on_j if always_on_j else 0.0


def short_names(names: list[str]) -> list[str]:
    """Return the names of the capacity policies alone where the scheduling policy is the same in all."""
    disciplines = {name.partition(" ")[0] for name in names}
    return names if len(disciplines) > 1 else [name.partition(" ")[2] or "always-on" for name in names]


def _possible(loss: Loss, possible: Float64) -> Json:
    order = np.argsort(loss.value, kind="stable")
    y = possible[order]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": packed(np.concatenate([[loss.left], loss.value[order], [loss.right]])),
        "y": packed(np.concatenate([y[:1], y, y[-1:]])),
        "line": line(POSSIBLE_KEY) | {"width": 1.5},
        "hoverinfo": "skip",
    }


def _front(loss: Loss, saved: Float64) -> Json:
    front = pareto_front(loss.value, saved)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": packed(np.append(loss.value[front], loss.right)),
        "y": packed(np.append(saved[front], saved[front[-1:]])),
        "line": line(FRONT_KEY) | {"shape": "hv", "width": 1.5},
        "hoverinfo": "skip",
    }


def _points(subject: Subject, loss: Loss, saved: Float64) -> Json:
    cycles = np.array([policy.sleep.figures.power_cycles_per_node_day for policy in subject.policies])
    size = SMALLEST_PX + GROWTH_PX * np.sqrt(cycles / max(float(cycles.max()), 1e-9))
    return {
        "type": "scatter",
        "mode": "markers",
        "x": packed(loss.value),
        "y": packed(saved),
        "text": [_told(policy) for policy in subject.policies],
        "marker": {
            "size": packed(size),
            "color": [policy.key.colour for policy in subject.policies],
            "symbol": [SYMBOLS[policy.number % len(SYMBOLS)] for policy in subject.policies],
            "line": {"width": 1, "color": "var(--page)"},
            "opacity": 1,
        },
        "hovertemplate": "%{text}<extra></extra>",
    }


def _told(policy: Policy) -> str:
    """Return what is said of a point: plotly's kind of HTML."""
    figures, outcome = policy.sleep.figures, policy.outcome
    lines = (
        name_text(policy.name),
        f"{figures.idle_saved_pct:z.1f} % of idle energy saved, {possible_saving_pct(policy):.1f} % possible",
        f"mean slowdown {outcome.mean_bounded_slowdown_by_delay:,.2f}",
        f"mean delay by sleep {clock_text(figures.mean_boot_delay_s)}",
        f"{figures.power_cycles_per_node_day:.2f} cycles a node and day",
    )
    return "<br>".join(lines)
