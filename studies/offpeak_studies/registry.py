"""All studies by name. The studies energy-carbon and day-ahead are run a part at a time."""

from collections.abc import Callable, Mapping

from offpeak.errors import BadInput
from offpeak.report_tables import Report
from offpeak.text import did_you_mean
from offpeak_studies.day_ahead.nordugrid_study import nordugrid
from offpeak_studies.day_ahead.study import day_ahead
from offpeak_studies.dynamic_pricing.study import dynamic_pricing
from offpeak_studies.energy_carbon.federation_study import federation
from offpeak_studies.energy_carbon.single_site import single_site
from offpeak_studies.harness import Progress, StudyOrder
from offpeak_studies.online_simulation.study import online_simulation
from offpeak_studies.price_capacity.study import price_capacity
from offpeak_studies.profit_cooling.study import profit_cooling
from offpeak_studies.sleeping.study import sleeping

Study = Callable[[StudyOrder, Progress], Report]
"""Runs the experiments whose results the output folder does not have. Raises BadInput, CannotWrite or OffpeakError."""

STUDIES: Mapping[str, Study] = {
    "dynamic-pricing": dynamic_pricing,
    "online-simulation": online_simulation,
    "price-capacity": price_capacity,
    "profit-cooling": profit_cooling,
    "sleeping": sleeping,
}

PARTS: Mapping[str, Mapping[str, Study]] = {
    "energy-carbon": {"single-site": single_site, "federation": federation},
    "day-ahead": {"xsede": day_ahead, "nordugrid": nordugrid},
}
"""Studies whose parts are run one at a time."""


REPLAYS = 10
"""How often each case is replayed if the order does not say."""

GRID_OPTIONS = frozenset({"--replays"})
OPTIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(STUDIES, frozenset({"--logs", "--replays"})),
    "price-capacity": frozenset({"--logs", "--prices", "--replays"}),
    "profit-cooling": frozenset({"--logs", "--search-time"}),
    "energy-carbon": frozenset({"--replays"}),
    "day-ahead": frozenset({"--prices", "--replays"}),
}
"""The inputs that each study has, by their options."""

WITHOUT: Mapping[str, str] = {
    "--logs": "replays no folder of logs",
    "--prices": "has prices of its own",
    "--replays": "replays each case once",
    "--search-time": "has no search",
}
"""Why the others do not have an input."""


def study_named(name: str, part: str | None = None) -> Study:
    """Return the study of that name, or its part.

    Raises BadInput if there is none, or if a part is missing or superfluous.
    """
    if name in PARTS:
        parts = PARTS[name]
        if part is None:
            hint = f"add --part {' or --part '.join(parts)}"
            raise BadInput(f"the study {name} is run a part at a time", hint=hint)
        if part not in parts:
            raise BadInput(f"the study {name} has no part {part!r}", hint=did_you_mean(part, parts))
        return parts[part]
    if name not in STUDIES:
        raise BadInput(f"unknown study {name!r}", hint=did_you_mean(name, [*STUDIES, *PARTS]))
    if part is not None:
        raise BadInput(f"the study {name} has no parts, but {part!r} was requested", hint="leave --part out")
    return STUDIES[name]
