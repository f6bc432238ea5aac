"""What a report's figures rest on: remarks, definitions, and how to get the same again."""

from dataclasses import dataclass

from offpeak.installation import installed_version
from offpeak.model.schedule_metrics import SHORTEST_S
from ui.replay.comparison_table import remarks, unlike_remark
from ui.report.html_text import bullets, definitions, paragraph, section
from ui.report.subject import Subject

DEFINITIONS = (
    ("cost", "power of running jobs and idle nodes, integrated over the price of every moment"),
    ("saving", "how far the cost is below that of the first policy, in per cent of it"),
    (
        "energy",
        "power of running jobs and idle nodes over the period: from the first submission to the last end of all",
    ),
    ("utilization", "node-hours that ran jobs over node-hours there were, until the policy's own last end"),
    ("mean wait", "from submission to start, each job counting once"),
    ("bounded slowdown", f"mean of (wait + run) / run, where a run shorter than {SHORTEST_S} s counts as that long"),
    ("worst postponement", "how much later than under the first policy the most postponed job starts"),
    ("on-peak", "dear hours by the tariff, or by the rule that --peak-rule sets; policies know nothing else of prices"),
    ("CO2", "energy times the carbon intensity of every moment"),
)

SLEEP_DEFINITIONS = (
    ("nodes that sleep", "draw what their node class says of each state, also while they fall asleep and wake"),
    (
        "idle energy saved",
        "how far the energy of all nodes without a job is below that of nodes always on with the same starts",
    ),
    ("possible", "the same for nodes that know when they are needed next: the lower bound of energy for these starts"),
    ("inactive", "share of node time in which nodes were asleep, on the way into or out of sleep, or failed"),
    ("cycle", "going to standby or off once; a slower clock is no cycle"),
    ("delay by sleep", "how long nothing but sleeping, falling or waking nodes kept a job from running"),
    ("slowdown, SLA", "slowdown is 1 + wait / max(10 s, run); the SLA is the bound on it that --sla sets"),
)


COOLING_DEFINITIONS = (
    (
        "cooling",
        "what the machine room draws beside the computers, by its table at their draw and the temperature outside",
    ),
    ("PUE", "energy of computers and cooling over that of the computers"),
)


@dataclass(frozen=True)
class Origin:
    """How the report came to be: the command line as it was typed, its settings file or "", and the random seed."""

    command: str
    settings_file: str
    seed: int


def foundations_section(subject: Subject, origin: Origin | None) -> str:
    """Return the section."""
    has_co2 = subject.comparison.outcomes[0].co2_kg is not None
    terms = DEFINITIONS if has_co2 else DEFINITIONS[:-1]
    if subject.prepared.case.room is not None:
        terms = (*terms, *COOLING_DEFINITIONS)
    return section(
        "What this rests on",
        bullets((*unlike_remark(subject.comparison), *remarks(subject.trace, subject.prepared, subject.comparison))),
        "<h3>What the words mean</h3>",
        definitions((*terms, *SLEEP_DEFINITIONS) if subject.can_sleep else terms),
        "<h3>The same again</h3>",
        *(_origin(origin) if origin else ()),
        paragraph(
            f"Made by offpeak {installed_version()}. Replays are deterministic: the same input, the same figures."
        ),
    )


def _origin(origin: Origin) -> tuple[str, ...]:
    settings = f", with the settings of {origin.settings_file}" if origin.settings_file else ""
    return (
        paragraph(origin.command, css_class="command"),
        paragraph(f"Random seed: {origin.seed}{settings}."),
    )
