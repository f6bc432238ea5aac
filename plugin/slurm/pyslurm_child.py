"""Prints jobs and nodes of pyslurm under the names of Slurm's JSON.

This is a separate program that imports nothing of offpeak: without Slurm's configuration, the import of pyslurm takes a
minute and then ends Python.
"""

import json
import sys


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


JOB = _same(
    "state_reason user_name account name comment partition qos required_nodes excluded_nodes "
    "memory_per_node memory_per_cpu priority nice cpus licenses time_limit submit_time eligible_time "
    "start_time end_time scheduled_nodes"
) | {
    "job_id": "id",
    "array_job_id": "array_id",
    "array_task_string": "array_tasks_waiting",
    "array_max_tasks": "array_tasks_parallel",
    "het_job_id": "heterogeneous_id",
    "job_state": "state",
    "features": "constraints",
    "resv_name": "reservation",
    "minimum_cpus_per_node": "min_cpus_per_node",
    "node_count": "num_nodes",
    "tasks": "ntasks",
    "nodes": "allocated_nodes",
    "dependency": "dependencies",
}
NODE = _same("name state real_memory boot_time reason partitions comment") | {
    "alloc_cpus": "allocated_cpus",
    "cpus": "total_cpus",
    "last_busy": "last_busy_time",
    "reason_set_by_user": "reason_user",
    "reason_changed_at": "reason_time",
    "features": "available_features",
    "gres": "configured_gres",
}


def main() -> None:
    """Print all jobs and all nodes; end with pyslurm's error if it fails."""
    import pyslurm

    jobs = [_job(job) for job in pyslurm.Jobs.load().values()]
    nodes = [_node(node) for node in pyslurm.Nodes.load().values()]
    json.dump({"jobs": jobs, "nodes": nodes}, sys.stdout)


def _job(job: object) -> dict[str, object]:
    # The TRES per job, node, socket and task come from squeue: pyslurm 25.11 shows no GRES there.
    return _record(job, JOB) | {"shared": ["none"] if job.resource_sharing == "NO" else []}  # type: ignore[attr-defined]


def _node(node: object) -> dict[str, object]:
    gres = dict(getattr(node, NODE["gres"]) or {})
    counts = {name: found["count"] if isinstance(found, dict) else found for name, found in gres.items()}
    return _record(node, NODE) | {"gres": ",".join(f"{name}:{number}" for name, number in counts.items())}


def _record(source: object, names: dict[str, str]) -> dict[str, object]:
    """Read attributes one by one: to_dict() fails as a whole for a job that was suspended while it started."""
    return {ours: _plain(_attribute(source, theirs)) for ours, theirs in names.items()}


def _attribute(source: object, name: str) -> object:
    try:
        return getattr(source, name)
    except UnicodeDecodeError as problem:
        # A user may write any bytes.
        return problem.object.decode(errors="replace")


def _plain(value: object) -> object:
    """Return a dict, such as that of dependencies, as one text; "" for an empty one."""
    return (json.dumps(value, sort_keys=True) if any(value.values()) else "") if isinstance(value, dict) else value


if __name__ == "__main__":
    main()
