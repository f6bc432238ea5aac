"""The jobs of `squeue --json` and of slurmrestd."""

from plugin.scheduler.job import Job
from plugin.slurm.answer_json import Record, number, records, seconds, text, words
from plugin.slurm.job_states import job_state, shown_word
from plugin.slurm.jobs_text import needs_text
from plugin.slurm.words import NOTHING, parts, plain

# In the order of the columns that squeue's text is made of; text knows no excluded nodes.
_WANTS = (
    "features",
    "resv_name",
    "qos",
    "required_nodes",
    "tres_per_job",
    "tres_per_node",
    "tres_per_socket",
    "tres_per_task",
    "excluded_nodes",
)


def jobs_of_json(answer: bytes, *, source: str) -> tuple[Job, ...]:
    """Return the jobs of the answer; CannotAskSlurm as `records`. Fields that are missing count as nothing."""
    return tuple(map(_job, records(answer, "jobs", source=source)))


def _job(record: Record) -> Job:
    state = shown_word(words(record, "job_state"))
    reason = text(record, "state_description") or text(record, "state_reason")
    priority = number(record, "priority") or 0
    limit_min = number(record, "time_limit")
    job_id, array_id = number(record, "job_id") or 0, number(record, "array_job_id") or 0
    return Job(
        str(job_id),
        job_state(state, reason, priority),
        state,
        plain(reason),
        text(record, "user_name"),
        plain(text(record, "account")),
        text(record, "name"),
        plain(text(record, "comment")),
        parts(text(record, "partition")),
        _needs(record),
        text(record, "resv_name"),
        plain(text(record, "qos")),
        priority,
        -(number(record, "nice") or 0),
        number(record, "node_count") or 0,
        number(record, "cpus") or 0,
        "none" in words(record, "shared") or "true" in words(record, "exclusive"),
        None if limit_min is None else 60 * limit_min,
        seconds(record, "submit_time") or 0,
        seconds(record, "eligible_time"),
        seconds(record, "start_time"),
        seconds(record, "end_time"),
        text(record, "nodes") or text(record, "scheduled_nodes"),
        not array_id and not number(record, "het_job_id") and text(record, "dependency") in NOTHING,
    )


def _needs(record: Record) -> str:
    memory = number(record, "memory_per_node") or number(record, "memory_per_cpu") or 0
    cpus = number(record, "minimum_cpus_per_node") or 0
    wants = ("" if (want := text(record, name)) in NOTHING else want for name in _WANTS)
    return needs_text(text(record, "partition"), str(cpus), str(memory), *wants)
