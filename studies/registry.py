"""All studies by name."""

from collections.abc import Callable, Mapping

from offpeak.errors import BadInput
from offpeak.suggest import did_you_mean
from studies.dynamic_pricing.study import dynamic_pricing
from studies.order import Order, Progress
from studies.report import Report

Study = Callable[[Order, Progress], Report]

STUDIES: Mapping[str, Study] = {"dynamic-pricing": dynamic_pricing}


def study_named(name: str) -> Study:
    """Return the study of that name; BadInput if there is none."""
    if name not in STUDIES:
        raise BadInput(f"unknown study {name!r}", hint=did_you_mean(name, STUDIES))
    return STUDIES[name]
