"""The tables of a report: policies with their intervals, the most postponed jobs by name, and what the figures rest
on.

The most postponed jobs are listed because their users will ask. The foundations hold remarks, definitions, and the
command that produces the report.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from offpeak.display import duration_text, percent_text
from offpeak.installation import installed_version
from offpeak.model.arrays import Int64
from offpeak.model.constants import WEEK_S, YEAR_S
from offpeak.model.schedule_metrics import SHORTEST_S, postponement_s
from offpeak.power.capacity.registry import CAPACITY_POLICIES
from offpeak.sim_backend.comparison.likeness import likeness_of
from offpeak.sim_backend.comparison.outcome import PolicyOutcome, PolicyRun
from offpeak.sim_backend.comparison.replications import SLEEP_FIGURES
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.replay.policy import policy_docs
from offpeak.ui.replay.comparison import (
    NO_BASELINE,
    machine_text,
    policy_row,
    policy_units,
    remarks,
    unlike_remark,
)
from offpeak.ui.replay.likeness import difference_lines
from offpeak.ui.replay.tables import (
    NOT_SIGNIFICANT,
    SLEEP_HEADERS,
    cooling_headers,
    cooling_row,
    energy_unit,
    sleep_remark,
    sleep_row,
    spread_remark,
)
from offpeak.ui.report.page import HtmlCell, bullets, definitions, paragraph, section, table
from offpeak.ui.report.subject import ReportPolicy, ReportSubject, outcome_at

Texts = Callable[[PolicyOutcome, bool], tuple[str, ...]]
"""The cells of a policy; the argument is whether it is the first."""

FIGURES = (
    *("", "cost", "saving_pct", "energy_kwh", "utilization", "mean_wait_s"),
    *("mean_bounded_slowdown", "worst_postponement_s", "co2_kg"),
)
"""The field of an Outcome that each column shows."""

COOLING_FIGURES = ("", "energy_kwh", "cooling_kwh", "pue", "cooling_cost", "", "cooled_saving_pct")
"""The same for the table of the machine room; the sum of both costs has no field."""

WITH_RANGE = {
    *("saving_pct", "mean_wait_s", "mean_bounded_slowdown", "worst_postponement_s", "cooled_saving_pct"),
    *SLEEP_FIGURES,
}
"""The figures that matter for choosing a policy. The range of the cost adds little to that of the saving."""

WITHOUT_CENTS = 1000
"""From so much money on, the first table has whole numbers."""

ONE_REPLAY = "A single replay cannot separate small differences from random variation; --replays 20 can."


def summary_section(subject: ReportSubject) -> str:
    """Return the first table: money, energy, CO2, sleep and waits of each policy, of a year if the log permits."""
    begin_s, (first, *_) = subject.comparison.begin_s, subject.figures
    length_s = first.until_s - begin_s
    per = "a year" if length_s >= WEEK_S else "in all"

    def times(outcome: PolicyOutcome) -> float:
        return YEAR_S / (outcome.until_s - begin_s) if length_s >= WEEK_S else 1.0

    def co2_kg(outcome: PolicyOutcome) -> float | None:
        return None if outcome.co2_kg is None else times(outcome) * outcome.co2_kg

    a_year = [replace(each, energy_kwh=times(each) * each.energy_kwh, co2_kg=co2_kg(each)) for each in subject.figures]
    units, decimals = policy_units(a_year), 0 if times(first) * first.cost >= WITHOUT_CENTS else 2
    columns = {
        "policy": "", f"{units.currency} {per}": "cost", f"saved {per}": "saving_pct", "saved": "saving_pct",
        f"{units.energy.name} {per}": "energy_kwh", "mean wait": "mean_wait_s", "longest delay": "worst_postponement_s",
    }  # fmt: skip
    columns |= {"idle energy saved": "idle_saved_pct"} if subject.can_sleep else {}
    columns |= {f"CO2 {units.co2.name} {per}": "co2_kg"} if units.co2 else {}

    def texts(outcome: PolicyOutcome, is_first: bool) -> tuple[str, ...]:
        is_compared = not (is_first or outcome.never_started)
        before = abs((outcome.baseline or outcome).cost)
        emitted_kg = co2_kg(outcome)
        return (
            outcome.policy,
            f"{times(outcome) * outcome.cost:,.{decimals}f}",
            f"{times(outcome) * before * outcome.saving_pct / 100:z,.{decimals}f}" if is_compared else NO_BASELINE,
            percent_text(outcome.saving_pct, 1) if is_compared else NO_BASELINE,
            units.energy.figure(times(outcome) * outcome.energy_kwh),
            duration_text(outcome.mean_wait_s),
            NO_BASELINE if is_first else f"+{duration_text(max(0, outcome.worst_postponement_s))}",
            *([percent_text(outcome.idle_saved_pct or 0.0, 1)] if subject.can_sleep else []),
            *([units.co2.figure(emitted_kg)] if units.co2 and emitted_kg is not None else []),
        )

    scaled = f"{duration_text(length_s)} scaled to a year, without other seasons and other jobs"
    caption = f"Against {first.policy}; {scaled if per == 'a year' else 'of the time of the log'}"
    if first.bill is not None:
        caption += f"; money is {'the whole bill, with' if first.cost == first.bill else 'without'} demand charges"
    return section("What each policy saves", _table(subject, caption, list(columns), list(columns.values()), texts))


def glossary_section(subject: ReportSubject) -> str:
    """Return what the policies of the report do, each part of their names once."""
    known = {kind.name: kind.doc for kind in CAPACITY_POLICIES} | {
        "peak": "jobs wait that would draw a new highest power"
    }
    known |= policy_docs()
    parts = dict.fromkeys(part for policy in subject.policies for part in policy.name.replace("+", " ").split())
    docs = ((part, known.get(part.partition(":")[0], "")) for part in parts)
    return section("What the policies do", definitions(doc for doc in docs if doc[1]))


def savings_section(subject: ReportSubject) -> str:
    """Return the tables with a note on their intervals."""
    baseline = subject.comparison.outcomes[0]
    outcomes = subject.comparison.outcomes
    units = policy_units(outcomes)
    caption = f"Savings and delays are against {baseline.policy}"
    tables = [
        _table(subject, caption, units.headers(), FIGURES, lambda each, first: policy_row(each, units, is_first=first))
    ]
    if subject.prepared.case.room is not None:
        headers, energy = cooling_headers(outcomes), energy_unit(outcomes)
        room: Texts = lambda each, first: cooling_row(each, energy, is_first=first)  # noqa: E731
        tables += [_table(subject, "The machine room", headers, COOLING_FIGURES, room)]
    if subject.can_sleep:
        tables += [
            _table(subject, "Nodes that sleep", SLEEP_HEADERS, ("", *SLEEP_FIGURES), lambda each, _: sleep_row(each))
        ]
        sentence = sleep_remark(subject.comparison.case.sla)
        tables += [paragraph(f"{sentence[0].upper()}{sentence[1:]}.")]
    if not subject.others:
        return section("Results of each policy", *tables)
    remark = ONE_REPLAY
    if spreads := subject.spreads:
        chance = f"{NOT_SIGNIFICANT} is a difference from {spreads[0].policy} that may be due to chance"
        remark = f"{'Means' if spreads[0].alignments == 1 else 'Medians'} of {spread_remark(spreads)}; {chance}."
    return section("Results of each policy", *tables, paragraph(remark))


def _table(subject: ReportSubject, caption: str, headers: Sequence[str], fields: Sequence[str], texts: Texts) -> str:
    """Return a row for each policy: its figures, or means or medians over the replays with intervals for some."""
    spreads = {spread.policy: spread for spread in subject.spreads}
    rows: list[Sequence[HtmlCell | str]] = []
    for number, outcome in enumerate(subject.comparison.outcomes):
        is_first, spread = number == 0, spreads.get(outcome.policy)
        if spread is None:
            rows.append(texts(outcome, is_first))
            continue
        columns = (texts(outcome_at(outcome, spread, which), is_first) for which in ("middle", "low", "high"))
        cells = []
        for name, text, low, high in zip(fields, *columns, strict=False):
            varies = name in WITH_RANGE and low != high
            is_noise = varies and not is_first and spread.is_noise(name)
            interval = f"{low.removesuffix(' %')} to {high.removesuffix(' %')}" if varies else ""
            cells.append(HtmlCell(text, interval, NOT_SIGNIFICANT if is_noise else ""))
        rows.append(cells)
    return table(caption, headers, rows)


SHOWN_JOBS = 10
HEADERS = (
    *("job", "user", "{unit}s", "W per {unit}", "submitted", "started under {baseline}", "under {policy}"),
    *("later by",),
)


def postponed_section(subject: ReportSubject) -> str:
    """Return a table for each policy but the baseline."""
    first, parts = subject.policies[0], []
    for policy in subject.others:
        jobs = most_postponed(policy.run, first.run, SHOWN_JOBS).tolist()
        if not jobs:
            parts.append(paragraph(f"No job starts later under {policy.name} than under {first.name}."))
            continue
        headers = [header.format(baseline=first.name, policy=policy.name, unit=subject.unit) for header in HEADERS]
        caption = f"The jobs that {policy.name} postpones most against {first.name}"
        parts.append(table(caption, headers, [_row(subject, policy, job) for job in jobs], texts=2))
    if not subject.others:
        parts.append(paragraph("Only one policy was replayed: no job starts later than under another."))
    return section("Jobs that are delayed most", *parts)


def most_postponed(run: PolicyRun, baseline: PolicyRun, count: int) -> Int64:
    """Return the `count` jobs that start most later than under the baseline, none that does not start later."""
    first_s = baseline.schedule.start_s
    later_s = np.where(first_s == NOT_YET, 0, postponement_s(run.schedule.start_s, first_s))
    most = np.argsort(-later_s, kind="stable")[:count]
    return most[later_s[most] > 0]


def _row(subject: ReportSubject, policy: ReportPolicy, job: int) -> tuple[str, ...]:
    case, names, calendar = subject.comparison.case, subject.trace.names, subject.calendar
    start_s = int(policy.run.schedule.start_s[job])
    before_s = int(subject.policies[0].run.schedule.start_s[job])
    return (
        names.job_text(int(case.jobs.job_id[job])),
        names.user_text(int(case.jobs.user[job])),
        f"{case.jobs.size[job]:,}",
        f"{case.node_power_w[job]:.0f}",
        calendar.minute_text(int(case.jobs.submit_s[job])),
        calendar.minute_text(before_s),
        calendar.minute_text(start_s),
        duration_text(start_s - before_s),
    )


DEFINITIONS = (
    ("cost", "power of running jobs and idle nodes times the price, integrated over time"),
    ("saving", "reduction of the cost compared with the first policy, in per cent"),
    ("energy", "power of running jobs and idle nodes, until the last end under the policy and under the first one"),
    ("utilization", "node-hours with jobs divided by all node-hours, until the last end under the policy"),
    ("mean wait", "from submission to start; each job counts once"),
    ("bounded slowdown", f"mean of (wait + run) / run, where a run shorter than {SHORTEST_S} s counts as that long"),
    ("longest delay", "largest delay of the start of a job compared with the first policy"),
    ("on-peak", "expensive hours by the tariff, or by --peak-rule; policies use no other information about prices"),
    ("CO2", "energy times the carbon intensity, integrated over time"),
)

SLEEP_DEFINITIONS = (
    ("nodes that sleep", "draw the power of their node class in each state, also during transitions"),
    ("idle energy saved", "of the energy of nodes without a job, against nodes always on and the same starts"),
    ("possible", "the same if the next use of each node were known: the lower bound of energy for these starts"),
    ("inactive", "share of node time in which nodes were asleep, in a transition, or failed"),
    ("cycle", "a transition to standby or off; a slower clock does not count"),
    ("delay by sleep", "time for which only nodes asleep or in a transition kept a job from running"),
    ("slowdown, SLA", "slowdown is 1 + wait / max(10 s, run); the SLA is its limit, set by --sla"),
)


COOLING_DEFINITIONS = (
    ("cooling", "power of the machine room without computers, by its table, their power and the outside temperature"),
    ("PUE", "energy of computers and cooling divided by that of the computers"),
)


@dataclass(frozen=True)
class ReportOrigin:
    """How the report came to be: the command line as it was typed, its settings file or "", and the random seed."""

    command: str
    settings_file: str
    seed: int


def foundations_section(subject: ReportSubject, origin: ReportOrigin | None) -> str:
    """Return the section."""
    has_co2 = subject.comparison.outcomes[0].co2_kg is not None
    origin_terms = []
    if origin is not None:
        settings = f", with the settings of {origin.settings_file}" if origin.settings_file else ""
        seed = paragraph(f"Random seed: {origin.seed}{settings}.")
        origin_terms = [paragraph(origin.command, css_class="command"), seed]
    terms = DEFINITIONS if has_co2 else DEFINITIONS[:-1]
    if subject.prepared.case.room is not None:
        terms = (*terms, *COOLING_DEFINITIONS)
    likeness = likeness_of(subject.comparison, subject.trace.names, subject.prepared.units_per_node)
    unlike = (*unlike_remark(subject.comparison), *difference_lines(likeness))
    parts = (
        definitions((("machine", machine_text(subject.prepared.basis)),)),
        bullets((*unlike, *remarks(subject.trace, subject.prepared, subject.comparison))),
        "<h3>Definitions</h3>",
        definitions((*terms, *SLEEP_DEFINITIONS) if subject.can_sleep else terms),
        "<h3>The same again</h3>",
        *origin_terms,
        paragraph(
            f"Made by offpeak {installed_version()}. Replays are deterministic: the same input gives the same figures."
        ),
    )
    return section("Assumptions", *parts)
