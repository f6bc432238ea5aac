"""The jobs that `squeue` prints, one record each.

An array's pending tasks are one record of the scheduler, but for those that were split off. Without --array squeue
hides the latter; with it the former is many lines that are alike, of which one is kept. What users write freely stands
last; each record ends, and its columns are separated, with a word that no user can guess: an account or a comment may
hold any character.
"""

from functools import lru_cache

from plugin.scheduler.job import Job
from plugin.slurm.job_states import job_state
from plugin.slurm.words import NOTHING, count, limit_s, memory_mib, parts, plain, unix_s

COLUMNS = (
    "JobID",
    "JobArrayID",
    "HetJobID",
    "State",
    "Reason",
    "UserName",
    "Account",
    "Partition",
    "PriorityLong",
    "Nice",
    "NumNodes",
    "NumCPUs",
    "OverSubscribe",
    "TimeLimit",
    "SubmitTime",
    "EligibleTime",
    "StartTime",
    "EndTime",
    "NodeList",
    "SchedNodes",
    "Dependency",
    "Reservation",
    "QOS",
    "MinCpus",
    "MinMemory",
    "Feature",
    "ReqNodes",
    "tres-per-job",
    "tres-per-node",
    "tres-per-socket",
    "tres-per-task",
    "Comment",
    "Name",
)
SEPARATOR = "\0"
"""It stands between the columns of a record, once it is read: no text of Slurm has it."""

MOST_RECORDS = 1 << 15
"""So many are remembered: most jobs that wait are told of in the same words again."""

# Every version has them: --array-unique, which would print the records as they are, went after 22.05. --noconvert, as
# 2048 nodes would be 2K.
OPTIONS = ("--all", "--local", "--noheader", "--noconvert", "--array", "--states=all")


def squeue_arguments(end: str) -> tuple[str, ...]:
    """Return what squeue is to be asked, so that each record ends with `end` and a newline."""
    last = len(COLUMNS) - 1
    columns = (f"{column}:{end if i == last else separator(end)}" for i, column in enumerate(COLUMNS))
    return (*OPTIONS, f"--Format={','.join(columns)}")


def separator(end: str) -> str:
    """Return what squeue writes between columns; like `end`, no user can guess it."""
    return f"\x1f{end}\x1f"


def jobs_of_text(text: bytes, end: str) -> tuple[Job, ...]:
    """Return the jobs of squeue's answer to `squeue_arguments(end)`; records that are cut off are left out."""
    # What follows the last end was cut off.
    records = text.decode(errors="replace").replace(separator(end), SEPARATOR).split(f"{end}\n")[:-1]
    one_of_each = {record.partition(SEPARATOR)[0]: record for record in records}
    return tuple(filter(None, map(job_of, one_of_each.values())))


def needs_text(*what: str) -> str:
    """Return one text of what decides which nodes a job can use; those of jobs from the same source compare."""
    return SEPARATOR.join(what)


@lru_cache(maxsize=MOST_RECORDS)
def job_of(record: str) -> Job | None:
    """Return the job of one record, None if it is cut off."""
    row = record.split(SEPARATOR, len(COLUMNS) - 1)
    return _job(row) if len(row) == len(COLUMNS) else None


def _job(row: list[str]) -> Job:
    job_id, array_id, het_id, state, reason, user, account, partition = row[:8]
    priority, nice, nodes, cpus, share, limit, submit, eligible = row[8:16]
    start, end, hosts, planned, dependency, reservation, qos, cpus_per_node = row[16:24]
    memory, feature, required, per_job, per_node, per_socket, per_task, comment, name = row[24:]
    number = count(priority)
    wants = needs_text(
        partition,
        cpus_per_node,
        str(memory_mib(memory)),
        feature,
        reservation,
        qos,
        required,
        per_job,
        per_node,
        per_socket,
        per_task,
        "",
    )
    return Job(
        job_id,
        job_state(state, reason, number),
        state,
        plain(reason),
        user,
        plain(account),
        name,
        plain(comment),
        parts(partition),
        wants.replace("(null)", "").replace("N/A", ""),
        plain(reservation),
        plain(qos),
        number,
        -int(nice) if nice not in NOTHING else 0,
        count(nodes),
        count(cpus),
        share == "NO",
        limit_s(limit),
        unix_s(submit) or 0,
        unix_s(eligible),
        unix_s(start),
        unix_s(end),
        hosts or plain(planned),
        array_id == job_id and het_id in NOTHING and dependency in NOTHING,
    )
