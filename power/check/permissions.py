"""Whether this user may read the logins, and may ask and order the scheduler."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from offpeak.errors import BadInput, OffpeakError
from offpeak.machines.credentials import Credential, read_secret
from plugin.slurm.commands import CannotAskSlurm, ask
from plugin.slurm.fields import parse_config
from plugin.slurm.rights import AdminLevel, SlurmRights, read_rights
from plugin.slurm.traits import rate_troubles
from power.check.finding import Finding, Verdict, failed

TIMEOUT_S = 10.0

PART, SLURM = "scheduler", "Slurm"


def check_credentials(credentials: Iterable[Credential]) -> Iterator[Finding]:
    """Yield a finding for every login: whether its files can be read, and by nobody else."""
    for each in credentials:
        try:
            files = _read_all(each)
        except BadInput as problem:
            yield failed("login", each.name, problem)
        else:
            yield Finding("login", each.name, Verdict.GOOD, f"{files} readable by nobody else")


def _read_all(credential: Credential) -> str:
    files = [file for file in (credential.password_file, credential.privacy_file, credential.key_file) if file]
    for file in files:
        read_secret(file)
    if credential.known_hosts and not credential.known_hosts.is_file():
        hint = f"ssh-keyscan -f NODES > {credential.known_hosts}, and compare the keys with those on the nodes"
        raise BadInput(f"{credential.known_hosts}: no such file", hint=hint)
    return "its file is" if len(files) == 1 else f"its {len(files)} files are"


def check_scheduler() -> Finding:
    """Return whether Slurm answers, shows this user all jobs, and lets it drain nodes and set priorities."""
    try:
        ask("scontrol", "ping", timeout_s=TIMEOUT_S)
        rights = read_rights(timeout_s=TIMEOUT_S)
        config = parse_config(ask("scontrol", "show", "config", timeout_s=TIMEOUT_S))
    except CannotAskSlurm as problem:
        return _without_slurm(problem)
    found = finding_of(rights)
    if found.verdict is Verdict.GOOD and (limits := rate_troubles(config)):
        ((said, hint),) = limits
        return Finding(PART, SLURM, Verdict.DOUBTFUL, f"{found.said}; {said}", hint)
    return found


def finding_of(rights: SlurmRights) -> Finding:
    """Return what a user's rights in Slurm allow: to see what others have, to change jobs, to change nodes."""
    level = f"{rights.user}'s AdminLevel is {rights.level}"
    if rights.troubles:
        ((said, hint),) = rights.troubles
        return Finding(PART, SLURM, Verdict.BAD, f"{said}: nothing is switched off; {level}", hint)
    if rights.level is AdminLevel.ADMINISTRATOR:
        return Finding(PART, SLURM, Verdict.GOOD, f"answers; {rights.user} may order nodes and jobs")
    may = "it may order jobs, not nodes" if rights.level is AdminLevel.OPERATOR else "it may order neither"
    return Finding(PART, SLURM, Verdict.DOUBTFUL, f"answers; {level}: {may}", rights.hint)


def _without_slurm(problem: OffpeakError) -> Finding:
    if any(Path(folder, "scontrol").exists() for folder in os.get_exec_path()):
        return failed("scheduler", "Slurm", problem)
    hint = "without a scheduler that says which nodes run no job, none is ever switched off"
    return Finding("scheduler", "Slurm", Verdict.DOUBTFUL, "no scontrol on PATH", hint)
