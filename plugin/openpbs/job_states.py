"""OpenPBS's letters for a job's state, in ours."""

from plugin.scheduler.job import JobState

STATES = {
    # An array of which some have begun.
    "B": JobState.RUNNING,
    "E": JobState.ENDS,
    "F": JobState.ENDED,
    "H": JobState.HELD,
    "M": JobState.ENDED,
    "Q": JobState.PENDING,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "U": JobState.SUSPENDED,
    # It waits for its time, after which the server lets it go by itself.
    "W": JobState.PENDING,
    "X": JobState.ENDED,
}


def job_state(letter: str) -> JobState:
    """Return the state that OpenPBS's letter stands for; OTHER if it is not known."""
    return STATES.get(letter, JobState.OTHER)
