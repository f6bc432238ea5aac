"""Every scheduler that may be named in the settings is there, and no other."""

from dataclasses import replace

import pytest

from offpeak.agent_settings import AgentSettings
from offpeak.errors import BadInput
from offpeak.settings import BY_NAME, Settings
from plugin.scheduler.registry import SCHEDULERS, scheduler_of


@pytest.mark.parametrize("name", [name for name, _ in SCHEDULERS])
def test_each_can_be_chosen(name: str) -> None:
    kind = BY_NAME["agent.scheduler"].kind
    assert kind.read(name) == name
    made = scheduler_of(replace(Settings(), agent=AgentSettings(scheduler=name)))
    shown = {"simulated": "demo"}.get(name, name)
    assert type(made).__name__.lower() == f"{shown}scheduler"


def test_no_other_can_be_named() -> None:
    with pytest.raises(BadInput, match="is not a choice"):
        BY_NAME["agent.scheduler"].kind.read("lsf")
