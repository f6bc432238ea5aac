"""Slurm's words for a job's state, in ours."""

from collections.abc import Collection

from plugin.scheduler.job import JobState

# In the order in which Slurm shows one of them for a job that has several.
FLAGS = {
    "COMPLETING": JobState.ENDS,
    "STAGE_OUT": JobState.ENDS,
    "CONFIGURING": JobState.STARTS,
    "POWER_UP_NODE": JobState.STARTS,
    "RESIZING": JobState.RUNNING,
    "REQUEUED": JobState.ENDS,
    "REQUEUE_FED": JobState.ENDS,
    "REQUEUE_HOLD": JobState.HELD,
    "SPECIAL_EXIT": JobState.HELD,
    "STOPPED": JobState.SUSPENDED,
    "REVOKED": JobState.ENDED,
    "RESV_DEL_HOLD": JobState.HELD,
    "SIGNALING": JobState.ENDS,
}
BASES = {
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    "COMPLETED": JobState.ENDED,
    "CANCELLED": JobState.ENDED,
    "FAILED": JobState.ENDED,
    "TIMEOUT": JobState.ENDED,
    "NODE_FAIL": JobState.ENDED,
    "PREEMPTED": JobState.ENDED,
    "BOOT_FAIL": JobState.ENDED,
    "DEADLINE": JobState.ENDED,
    "OUT_OF_MEMORY": JobState.ENDED,
}
_ALL = FLAGS | BASES

# They change nothing of what the job is or does.
_SILENT = frozenset({"UPDATE_DB", "LAUNCH_FAILED", "RECONFIG_FAIL", "EXPEDITING"})
_HELD = frozenset({"JobHeldAdmin", "JobHeldUser"})


def job_state(word: str, reason: str, priority: int) -> JobState:
    """Return the state that Slurm's word stands for; OTHER if it is not known."""
    state = _ALL.get(word, JobState.OTHER)
    if state is JobState.PENDING and (priority == 0 or reason in _HELD):
        return JobState.HELD
    return state


def shown_word(words: Collection[str]) -> str:
    """Return the one of a job's words that Slurm shows where it shows only one; all of them if one is not known."""
    told = [word for word in words if word not in _SILENT]
    if any(word not in _ALL for word in told):
        return "+".join(told)
    shown = next((flag for flag in FLAGS if flag in told), None) or next(iter(told), "")
    return "CONFIGURING" if shown == "POWER_UP_NODE" else shown
