"""The answer of `offpeak estimate` as text, from what pays to what to do next; its page and its JSON use the parts."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from offpeak.display import CO2_UNITS, ENERGY_UNITS, duration_text, figure, percent_text, unit_of
from offpeak.model.constants import DAY_S, YEAR_S
from offpeak.model.zones import date_text, zone_text
from offpeak.power.capacity.levers import HARDLY_LONGER_S, Lever, Recommendation, WeeklyBill
from offpeak.prices.tariff import ASSUMED_TARIFF_BASIS
from offpeak.settings.file import toml
from offpeak.settings.table import Settings
from offpeak.sim_backend.comparison.weeks import LEAST_WEEKS
from offpeak.sim_backend.estimate import (
    HARDLY_PCT,
    Bounds,
    CapabilitySaving,
    LoggedUse,
    SavingsEstimate,
    reasons,
)
from offpeak.text import counted
from offpeak.ui.replay.comparison import basis_lines, one_user_remark, remarks, unlike_remark
from offpeak.ui.replay.likeness import (
    NOT_CLAIMED,
    UNKNOWN,
    difference_lines,
    order_text,
    partition_table,
    replayed_waits,
)
from offpeak.ui.replay.tables import NOT_SIGNIFICANT, quoted_text
from offpeak.ui.terminal import text_table

NO_SLEEP = "always-on"
AS_TODAY = "as today"
"""A change of the mean wait that chance alone can make."""


@dataclass(frozen=True)
class LeversAnswer:
    """The answer of the command: the estimate, its levers on its last days, and what is recommended (None: nothing)."""

    estimate: SavingsEstimate
    levers: tuple[Lever, ...]
    recommended: Recommendation | None
    settings: Settings
    weekly: WeeklyBill | None = None

    @property
    def savings(self) -> list[CapabilitySaving]:
        """The measured savings: those that pay first, then those that may be chance, each by their money."""
        measured = [lever.saving for lever in self.levers if lever.saving is not None]
        return sorted(measured, key=lambda saving: (saving.is_noise, -saving.a_year.middle))


def answer_view(answer: LeversAnswer) -> Group:
    """Return the answer as a console shows it."""
    estimate = answer.estimate
    likeness = estimate.likeness
    lines: list[RenderableType] = [
        *map(Text, assumed_prices_lines(estimate)),
        Text(headline(estimate)),
        *map(Text, basis_lines(estimate.prepared.basis)),
        Text(),
        Text(verdict(answer), style="bold"),
        *map(Text, reasons(estimate)),
        Text(),
        *savings_table(answer),
        *map(Text, folded_lines(answer)),
        *_section("What is recommended, as a settings file", fragment(answer).splitlines(), bullet=""),
        Text(),
        *map(Text, use_lines(estimate.used)),
        *_section("How sure is this?", sureness(estimate)),
    ]
    if likeness is not None and len(likeness.partitions) > 1:
        title = "By partition: use and mean wait in the log, mean waits in the replays"
        lines += [Text(), Text(title, style="bold")]
        lines.append(partition_table(likeness.partitions, replayed_waits((), estimate.spreads)))
    lines += _section("What was assumed and left out", (*lever_lines(answer), *assumptions(estimate)))
    return Group(*lines, *_section("What to do next", next_steps(answer)))


def _section(title: str, lines: Sequence[str], bullet: str = "- ") -> list[Text]:
    return [Text(), Text(title, style="bold"), *(Text(f"{bullet}{line}") for line in lines)] if lines else []


def assumed_prices_lines(estimate: SavingsEstimate) -> list[str]:
    """Return what tariff is assumed, as a first line that nobody overlooks; nothing if prices are given."""
    tariff = estimate.comparison.case.prices.aligned.tariff
    if tariff is None or tariff.basis != ASSUMED_TARIFF_BASIS:
        return []
    return [f"No prices are given: the amounts below are for an assumed tariff, {tariff.text}."]


def headline(estimate: SavingsEstimate) -> str:
    """Return the subject of the estimate as a line."""
    used, aligned = estimate.used, estimate.comparison.case.prices.aligned
    first, last = (date_text(second + aligned.offset_s, aligned.zone) for second in (used.begin_s, used.until_s))
    nodes = estimate.prepared.basis.nodes
    jobs = counted(len(estimate.prepared.case.jobs), "job")
    length = duration_text(used.until_s - used.begin_s)
    starts = f", started as {estimate.spreads[0].policy} starts them: no start is logged"
    what = f"{jobs} on {counted(nodes, 'node')}{starts if estimate.are_starts_replayed else ''}"
    return f"{estimate.trace.name}, {first} to {last} ({length}): {what}"


def use_lines(used: LoggedUse) -> list[str]:
    """Return energy, cost and load of the period."""
    kwh = used.energy_kwh
    unit = unit_of(kwh.middle, ENERGY_UNITS)
    energy = Bounds(kwh.low / unit.size, kwh.middle / unit.size, kwh.high / unit.size)
    mean = f"the mean price of the period is {figure(used.plain_mean_price)}"
    price = f"{figure(used.mean_price)} {used.currency}/MWh; {mean}"
    emitted = () if used.co2_kg is None else (f"emitted  {_co2_text(used.co2_kg)} of CO2",)
    waiting = f"{percent_text(100 * used.waiting_share)} of the time; mean wait {duration_text(used.mean_wait_s)}"
    return [
        f"used     {bounds_text(energy)} {unit.name}, {unit.figure(used.idle_energy_kwh)} of it by idle nodes",
        f"paid     {bounds_text(used.cost)} {used.currency}{_demand_text(used)}, at {price}{_unpriced_text(used)}",
        *emitted,
        f"load     {percent_text(100 * used.utilization, 1)} of the machine; jobs were waiting {waiting}",
    ]


def _co2_text(co2_kg: float) -> str:
    unit = unit_of(co2_kg, CO2_UNITS)
    return f"{unit.figure(co2_kg)} {unit.name}"


def _demand_text(used: LoggedUse) -> str:
    """Return the demand charges that are in the cost."""
    if used.demand is None:
        return ""
    peak = "no quarter-hour counts" if used.demand.peak_kw is None else f"{figure(used.demand.peak_kw)} kW at most"
    return f", {figure(used.demand.cost)} of it demand charges ({peak}), the rest for energy"


def _unpriced_text(used: LoggedUse) -> str:
    """Return the share of the energy without a price, if it matters for the cost."""
    share_pct = 100 * used.unpriced_kwh / used.energy_kwh.middle if used.energy_kwh.middle else 0.0
    return f"; {percent_text(share_pct, 1)} of the energy has no price and is not in it" if share_pct >= 0.1 else ""


def bounds_text(bounds: Bounds) -> str:
    """Return a figure, with its range if it rests on assumptions."""
    if bounds.low == bounds.high:
        return figure(bounds.middle)
    return f"{figure(bounds.middle)} ({figure(bounds.low)} to {figure(bounds.high)})"


def savings_table(answer: LeversAnswer) -> list[RenderableType]:
    """Return a row for each policy whose saving is more than chance, the recommended one first."""
    chosen = answer.recommended.saving.policy if answer.recommended else ""
    savings = [saving for saving in answer.savings if not saving.is_noise]
    savings.sort(key=lambda saving: saving.policy != chosen)
    if not savings:
        return []
    used, first = answer.estimate.used, "in the replay" if is_far(answer.estimate) else "would have saved"
    rows = ((f"{saving.capability}: {saving.policy}", *lever_cells(saving, used)) for saving in savings)
    peak = ["kW"] if used.demand else []
    headers = (first, f"{used.currency} a year", "share", "kWh a year", *peak, "mean wait", "cycles")
    return [text_table(headers, rows, spare=("cycles", "kWh a year"))]


def lever_cells(saving: CapabilitySaving, used: LoggedUse) -> tuple[str, ...]:
    """Return money, share of the bill, energy, with a demand charge the highest quarter-hour, and side effects."""
    cycles = saving.cycles_per_node_day
    peak = UNKNOWN if saving.peak_kw is None else NOT_SIGNIFICANT if saving.peak_is_noise else f"{saving.peak_kw:z,.2f}"
    return (
        NOT_SIGNIFICANT if saving.is_noise else bounds_text(saving.a_year),
        f"{saving.share_pct.middle:z.2f} %",
        f"{saving.energy_kwh:z,.0f}",
        *([peak] if used.demand else []),
        wait_text(saving),
        UNKNOWN if cycles is None else f"{cycles:.1f}",
    )


def folded_lines(answer: LeversAnswer) -> list[str]:
    """Return a line on the policies whose saving may be chance, one on those without a range, and one on why some
    levers were not measured.
    """
    noise: dict[str, list[str]] = {}
    for saving in answer.savings:
        if saving.is_noise:
            noise.setdefault(saving.capability, []).append(f"{saving.policy} {share_text(saving)}")
    policies = [f"{name} ({', '.join(each)})" for name, each in noise.items()]
    return [
        *([f"{NOT_SIGNIFICANT} for these nodes and jobs: {', '.join(policies)}"] if noise else []),
        *no_range_lines(answer),
        *unmeasured_lines(answer.levers),
    ]


def no_range_lines(answer: LeversAnswer) -> list[str]:
    """Return a line on the savings whose replays have too few weeks for a range."""
    short = [lever for lever in answer.levers if lever.saving and lever.replays and not lever.saving.has_range]
    if not short:
        return []
    names = ", ".join(dict.fromkeys(lever.name for lever in short))
    weeks = counted(max(lever.saving.weeks for lever in short if lever.saving), "whole week")
    return [f"too short for a range of {names}: {weeks} of jobs, {LEAST_WEEKS} are needed"]


def unmeasured_lines(levers: Sequence[Lever]) -> list[str]:
    """Return lines that say why a lever has no saving; the last two levers share one."""
    lines = list(dict.fromkeys(f"{lever.name}: {lever.note}" for lever in levers if lever.saving is None))
    return [*lines[:-2], "; ".join(lines[-2:])]


KILOWATTS = "kW: fall of the highest quarter-hour that a demand charge counts; -: not known, or none of the days counts"
POLICIES = {
    "greedy": "greedy starts jobs of high power first while electricity is cheap",
    "knapsack": "knapsack fills the free nodes with the most power then",
    "timeout": "timeout puts a node to sleep after that idle time",
    "break-even": "break-even does when sleep saves more energy than waking costs",
    "forecast": "forecast does if the node is hardly needed within that time",
    "profile": "profile offers fewer nodes in expensive hours",
}


def lever_lines(answer: LeversAnswer) -> list[str]:
    """Return what the policies with a row do, and notes on how the levers were measured."""
    measured = [(lever, lever.saving) for lever in answer.levers if lever.saving is not None]
    shown = {saving.policy.partition(":")[0]: lever for lever, saving in measured if not saving.is_noise}
    about = [text for name, text in POLICIES.items() if name in shown]
    notes: dict[str, dict[str, None]] = {}
    for lever in shown.values():
        notes.setdefault(lever.note, {})[lever.name] = None
    replays: dict[str, None] = {}
    for lever, _ in measured:
        of_days = f" of the last {counted(lever.days, 'day')}" if lever.days else ""
        if lever.replays:
            replays[f"{lever.name} {lever.replays}{of_days}"] = None
    return [
        *(["; ".join((*about, "cycles: of a node and day"))] if about else []),
        *([KILOWATTS] if shown and answer.estimate.used.demand else []),
        *([f"replays: {', '.join(replays)}"] if replays else []),
        *(f"{', '.join(names)}: {note}" for note, names in notes.items() if note),
    ]


def share_text(saving: CapabilitySaving) -> str:
    """Return the share of the bill with its range, if it has one."""
    share = saving.share_pct
    if share.low == share.high:
        return f"{share.middle:z.2f} %"
    return f"{share.middle:z.2f} ({share.low:z.2f} to {share.high:z.2f}) %"


def wait_text(saving: CapabilitySaving) -> str:
    """Return how much longer (+) or shorter (-) jobs would have waited, or by how much their runs become longer."""
    if saving.longer_run:
        return f"run +{percent_text(100 * saving.longer_run, 1)}"
    if saving.wait_is_noise:
        return AS_TODAY
    return f"{'+' if saving.wait_change_s >= 0 else '-'}{duration_text(abs(saving.wait_change_s))}"


def verdict(answer: LeversAnswer) -> str:
    """Return a sentence on what pays."""
    estimate, best = answer.estimate, answer.recommended
    if is_far(estimate):
        return NOT_CLAIMED
    wait = f"at most +{duration_text(HARDLY_LONGER_S)}"
    if best is None:
        return f"No saving is significant here with acceptable side effects (mean wait {wait})."
    saving = best.saving
    money = f"{bounds_text(saving.a_year)} {estimate.used.currency} a year"
    only = saving.capability == "order" and estimate.prepared.power.assumed
    if_power_differs = ", if the power of jobs differs as assumed, else nothing" if only else ""
    verb = "hardly pays: it would have saved" if saving.share_pct.high < HARDLY_PCT else "would have saved"
    effects = f"mean wait {wait_text(saving)} ({wait})"
    if saving.cycles_per_node_day is not None:
        most = answer.settings.agent.cycles_per_day
        effects += f", {saving.cycles_per_node_day:.1f} cycles per node and day (at most {most})"
    if saving.boot_delay_s:
        effects += f", a job that finds too few nodes awake waits {duration_text(saving.boot_delay_s)} for them"
    policies = " with ".join(name for name in (best.capacity, best.queue) if name not in (NO_SLEEP, "off"))
    return f"{policies} {verb} {share_text(saving)} of the bill: {money}{if_power_differs}. Side effects: {effects}."


def is_far(estimate: SavingsEstimate) -> bool:
    """Return whether the replay is too far from the log to claim a saving."""
    return estimate.likeness is not None and not estimate.likeness.is_near


def fragment(answer: LeversAnswer) -> str:
    """Return the recommended settings as TOML; "" without a recommendation, or if no saving is claimed."""
    best, prices = answer.recommended, answer.settings.prices
    if best is None or is_far(answer.estimate):
        return ""
    rows = {
        "mode": "shadow",
        "queue": best.queue,
        "capacity": best.capacity,
        **({"limit_capacity": True} if best.limit_capacity else {}),
        **({"longest_delay": best.longest_delay} if best.longest_delay else {}),
    }
    about = {
        "mode": "records decisions and changes nothing; active carries them out",
        "longest_delay": "of jobs whose owners permit a delay",
    }
    agent = [
        f"{name} = {toml(value)}" + (f"  # {about[name]}" if name in about else "") for name, value in rows.items()
    ]
    nodes = '# nodes = "n[001-128]": the nodes that the agent may switch, none until they are named'
    if prices.tariff is not None and prices.file is None:
        source = ["[prices]", f"tariff = {toml(prices.tariff)}"]
    else:
        source = ["# [prices] tariff or [feeds] zone: the agent needs the prices of tomorrow"]
    return "\n".join(["[agent]", *agent, nodes, *source])


BY_SUBMISSION = "jobs wait in the order of submission, for equal nodes: --cluster FILE adds partitions and priorities"


RANGES = (
    "brackets are the range for 19 of 20 other periods of this length (a year at most) whose load and prices vary like"
    " those of these weeks; other seasons, users and machines are not included"
)


def sureness(estimate: SavingsEstimate) -> list[str]:
    """Return in sentences how near the replay is to the log, and how much of the figures is chance or assumed."""
    first = estimate.spreads[0]
    wait = first.figures["mean_wait_s"]
    near = (
        f"the replay is close to the log: jobs wait {duration_text(wait.middle)} on average under {first.policy}, in"
        f" the log {duration_text(estimate.used.mean_wait_s)}{order_text(estimate.likeness)}"
    )
    far = (*unlike_remark(estimate.comparison), *difference_lines(estimate.likeness))
    if estimate.are_starts_replayed:
        far = (
            "the replay cannot be compared with the cluster: waits above are replayed, because the log has no starts",
        )
    power = (
        "ranges of energy and money assume 100 to 300 W per busy node; if all jobs draw"
        " the same power, the order of the queue saves nothing"
    )
    noise = f"{NOT_SIGNIFICANT}: the range includes zero, or the difference may be due to chance"
    held = "" if first.alignments == 1 else ", whose bills differ from the one paid above"
    return [
        *(far or (near,)),
        *one_user_remark(estimate.trace),
        *((power,) if estimate.prepared.power.assumed else ()),
        f"shares and waits are {quoted_text(first)} with submissions up to a minute later{held}",
        *([RANGES, noise] if any(saving.has_range for saving in estimate.savings) else []),
    ]


def assumptions(estimate: SavingsEstimate) -> list[str]:
    """Return what is assumed, how the log was read, and which jobs were left out."""
    zone = zone_text(estimate.comparison.case.prices.aligned.zone) or "this machine"
    period_s, jobs = estimate.used.until_s - estimate.used.begin_s, counted(len(estimate.prepared.case.jobs), "job")
    seasons = f"a year is {duration_text(period_s)} and {jobs} scaled up, without other seasons and other jobs"
    return [
        *([seasons] if period_s < YEAR_S - DAY_S else []),
        f"hours and days are in the time zone {zone}; --time-zone sets another",
        *([] if estimate.comparison.case.cluster else [BY_SUBMISSION]),
        *remarks(estimate.trace, estimate.prepared, estimate.comparison),
    ]


def next_steps(answer: LeversAnswer) -> list[str]:
    """Return the options and commands that make the estimate surer, measure more, or use it."""
    estimate = answer.estimate
    case = estimate.comparison.case
    tariff = case.prices.aligned.tariff
    has_partitions = estimate.likeness is not None and len(estimate.likeness.partitions) > 1
    steps = []
    if tariff is not None and tariff.basis == ASSUMED_TARIFF_BASIS:
        steps.append("--prices FILE or --tariff RULE: your own prices in place of the assumed ones")
    if estimate.prepared.power.assumed:
        steps.append("--power and --idle-power: the measured power of your nodes in place of the assumed one")
    is_mixed = has_partitions or estimate.prepared.units_per_node > 1
    if case.cluster is None and (is_mixed or is_far(estimate)):
        steps.append(
            "--cluster FILE: replay on the node types, partitions and limits of the cluster, not on equal nodes;"
            " `offpeak estimate --write-cluster FILE` on its head node writes the file"
        )
    elif is_far(estimate):
        steps.append("add limits of QOS, reservations and priorities to the cluster file, if it lacks some")
    steps.append("--node-class FILE: power and boot times of your own nodes (docs/how-to/sleeping-nodes.md)")
    if not fragment(answer):
        return steps
    return [
        *steps,
        "a week of mode shadow with the settings above: what they would save live (docs/tutorial/week-of-shadow.md)",
        "`offpeak simulate LOG --replays 20 --by user,partition --report report.html`, with the options used here: who"
        " would wait longer",
    ]
