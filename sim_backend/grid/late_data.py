"""Jobs that are given their nodes before their data has come: they hold them, and run once it is there.

Eq. (7) of Murali and Vadhiyar 2018: response = max(transfer, queue wait) + run time; the data starts to move when the
job is submitted.
"""

from offpeak.compiled import in_place, index
from sim_backend.engine.running_jobs import expect_end, push, unlist
from sim_backend.engine.state import NEVER, Int64, State


def next_event_s(state: State) -> int:
    """Return when something happens next on a site whose nodes are all awake, NEVER when nothing will."""
    now = state.scalars[0]
    wanted_pass_s = now["wanted_pass_s"] if now["waiting"] else NEVER
    return int(min(now["next_submit_s"], now["next_end_s"], wanted_pass_s))


@in_place
def hold_until(state: State, begun: Int64, data_s: Int64) -> None:
    """Let jobs that have started in this second run once their data is there: they end later, and are expected to."""
    now = state.scalars[0]
    slots = state.slots
    for rank in range(now.running):
        slot = int(state.ends[index(rank)])
        for at in range(len(begun)):
            late_s = data_s[index(at)] - state.start_s[index(begun[index(at)])]
            if slots.job[index(slot)] == begun[index(at)] and late_s > 0:
                slots.end_s[index(slot)] += late_s
                expected_s = slots.expected_end_s[index(slot)] + late_s
                unlist(state, slot)
                expect_end(state, slot, expected_s)
    # Pushed one after the other, what lies in the array becomes a heap again.
    for rank in range(now.running):
        push(state.ends, rank, slots, int(state.ends[index(rank)]))
    if now.running > 0:
        now.next_end_s = slots.end_s[index(state.ends[0])]
