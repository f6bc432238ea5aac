"""Tables of the simulated clusters: what the energy-aware schedulers save by load, and what the jobs wait."""

from studies.energy_carbon.answers import Answers
from studies.energy_carbon.experiment import Simulation
from studies.energy_carbon.paper import SERVERS
from studies.energy_carbon.plan import DISCIPLINES, LOADS
from studies.report import Cell, Range, Table

HOUR_S = 3600
RANGES = "In brackets the lowest and the highest of the replays."


def clusters_table(answers: Answers) -> Table:
    """Return the savings, a row a cluster and load."""
    return Table(
        "clusters",
        "Six schedulers on one cluster",
        "What E-FIFO, E-BFF and E-BBF save of the energy of their counterparts, whose nodes stay on, and the "
        f"utilization that these reach: above it a load is only a longer queue. Per cent. {RANGES}",
        (
            "servers",
            "load",
            *(f"E-{name}" for name in DISCIPLINES),
            *(f"utilization {name}" for name in DISCIPLINES),
        ),
        tuple(_saved_row(answers, servers, load) for servers in SERVERS for load in LOADS),
    )


def _saved_row(answers: Answers, servers: int, load: float) -> tuple[Cell, ...]:
    cases = [Simulation(servers, discipline, load) for discipline in DISCIPLINES.values()]
    saved = (answers.of(case, "saved_pct") for case in cases)
    used = (100 * answers.of(case, "utilization").mean for case in cases)
    return (str(servers), _load_text(load), *saved, *used)


def waits_table(answers: Answers) -> Table:
    """Return the waits, a row a cluster and load."""
    headers = [head for name in DISCIPLINES for head in (f"wait {name}", f"longer by {name}", f"delay {name}")]
    return Table(
        "waits",
        "What the jobs wait",
        "Mean wait in hours; how much longer it is under the energy-aware counterpart, in minutes, and for how long "
        f"nothing but sleeping nodes kept a job from running, a mean in minutes. A boot takes 2.5 minutes. {RANGES}",
        ("servers", "load", *headers),
        tuple(_wait_row(answers, servers, load) for servers in SERVERS for load in LOADS),
    )


def _wait_row(answers: Answers, servers: int, load: float) -> tuple[Cell, ...]:
    found: list[Cell] = [str(servers), _load_text(load)]
    for discipline in DISCIPLINES.values():
        case = Simulation(servers, discipline, load)
        longer = answers.waited_longer_s(case)
        found += [
            answers.of(case, "wait_s").mean / HOUR_S,
            Range(longer.mean / 60, longer.low / 60, longer.high / 60),
            answers.of(case, "sleep_delay_s").mean / 60,
        ]
    return tuple(found)


def _load_text(load: float) -> str:
    return f"{100 * load:.0f} %"
