"""Torque's letters for a job's state, in ours."""

from plugin.scheduler.job import JobState

STATES = {
    "C": JobState.ENDED,
    "E": JobState.ENDS,
    "H": JobState.HELD,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    # It waits for its time, after which the server lets it go by itself.
    "W": JobState.PENDING,
}


def job_state(letter: str) -> JobState:
    """Return the state that Torque's letter stands for; OTHER if it is not known."""
    return STATES.get(letter, JobState.OTHER)
