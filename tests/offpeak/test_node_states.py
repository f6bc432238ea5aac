"""The numbers of the states."""

from offpeak.model.node_states import (
    ACTIVE,
    DEPTHS,
    FAILED,
    OFF,
    POWERSAVE,
    STANDBY,
    STATES,
    asleep,
    coming_up,
    going_down,
)


def test_every_state_has_a_number_of_its_own() -> None:
    ways = [state(depth) for depth in range(len(DEPTHS)) for state in (going_down, asleep, coming_up)]
    assert [ACTIVE, FAILED, *ways] == list(range(STATES))


def test_depths_have_their_names() -> None:
    assert (DEPTHS[POWERSAVE], DEPTHS[STANDBY], DEPTHS[OFF]) == ("powersave", "standby", "off")
