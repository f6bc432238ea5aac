"""The study's figures, in the order of the paper's: 2, 3 with 5, 4, 6, 7 and 8."""

from collections.abc import Callable, Mapping, Sequence

from studies.online_simulation.answers import Answers, Figure, inactive_pct, slowdown, utilization_pct
from studies.online_simulation.colours import LOG_COLOURS, POLICY_COLOURS
from studies.online_simulation.dots_figure import Measure, dots_svg
from studies.online_simulation.lines_figure import Panel, lines_svg, top_of
from studies.online_simulation.plan import PERIODS, policies_of
from studies.online_simulation.result import ByWeek, Result
from studies.online_simulation.subject import Subject
from studies.report import Range

MEASURES = {"slowdown": slowdown, "utilization [%]": utilization_pct, "inactive [%]": inactive_pct}


def figures(answers: Answers, subjects: Sequence[Subject]) -> Mapping[str, str]:
    """Return all figures by file name."""
    return {
        "policies.svg": _policies(answers, subjects),
        "slowdown.svg": _weekly(answers, subjects, lambda result: result.weekly.slowdown, is_log=True),
        "utilization.svg": _weekly(answers, subjects, lambda result: result.weekly.utilization),
        "active.svg": _active(answers, subjects),
        "violations.svg": _weekly(answers, subjects, lambda result: result.weekly.violations),
        "periods.svg": _periods(answers, subjects),
    }


def _policies(answers: Answers, subjects: Sequence[Subject]) -> str:
    found = {subject.name: (subject, policies_of(subject)) for subject in subjects}

    def of(figure: Figure) -> Callable[[str, str], Range]:
        return lambda log, policy: answers.of(found[log][0], found[log][1][policy], figure)

    return dots_svg(list(found), POLICY_COLOURS, [Measure(name, of(figure)) for name, figure in MEASURES.items()])


def _periods(answers: Answers, subjects: Sequence[Subject]) -> str:
    found = {subject.name: subject for subject in subjects}

    def of(figure: Figure) -> Callable[[str, str], Range]:
        return lambda period, log: answers.of(found[log], found[log].setup(f"ols:{period}"), figure)

    colours = log_colours(list(found))
    return dots_svg(PERIODS, colours, [Measure(name, of(figure)) for name, figure in MEASURES.items()])


def log_colours(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for each log; with many logs they come round again."""
    return {name: LOG_COLOURS[at % len(LOG_COLOURS)] for at, name in enumerate(names)}


def _weekly(
    answers: Answers, subjects: Sequence[Subject], by_week: Callable[[Result], ByWeek], *, is_log: bool = False
) -> str:
    panels = []
    for subject in subjects:
        series = {name: answers.weekly(subject, setup, by_week) for name, setup in policies_of(subject).items()}
        panels.append(Panel(subject.name, series, top_of(series, is_log=is_log), is_log))
    return lines_svg(POLICY_COLOURS, panels)


def _active(answers: Answers, subjects: Sequence[Subject]) -> str:
    """Return the figure of active processors, whose axis ends at all of them."""
    panels = []
    for subject in subjects:
        setups = policies_of(subject)
        series = {
            name: answers.weekly(subject, setups[name], lambda result: result.weekly.active)
            for name in ("two-level", "OLS")
        }
        panels.append(Panel(subject.name, series, float(subject.size)))
    return lines_svg({name: POLICY_COLOURS[name] for name in ("two-level", "OLS")}, panels)
