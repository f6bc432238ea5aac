"""How far the door is open for each partition."""

import pytest

from offpeak.door.effect import Mode
from offpeak.errors import BadSetting
from offpeak.settings.agent import AgentSettings
from services.agent.site_context import parse_modes


def test_effect_on_several_partitions_uses_the_strictest_mode() -> None:
    modes = parse_modes(AgentSettings(mode="active", partition_modes=("debug=shadow", "long=advise")))
    assert modes.of(["batch"]) is Mode.ACTIVE
    assert modes.of(["batch", "long"]) is Mode.ADVISE
    assert modes.of(["long", "debug", "batch"]) is Mode.SHADOW


def test_effect_on_no_partition_uses_the_usual_mode() -> None:
    assert parse_modes(AgentSettings(mode="advise", partition_modes=("batch=active",))).of([]) is Mode.ADVISE


@pytest.mark.parametrize("text", ["debug", "debug=", "=shadow", "debug=shadwo", "debug=active=now"])
def test_a_mode_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="partition_modes"):
        parse_modes(AgentSettings(partition_modes=(text,)))
