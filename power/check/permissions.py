"""Whether this user may read the logins, and may ask and order the scheduler."""

import os
import pwd
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from offpeak.errors import BadInput, OffpeakError
from offpeak.machines.credential import Credential
from offpeak.machines.secret import read_secret
from plugin.slurm.ask import CannotAskSlurm, ask
from power.check.finding import Finding, Verdict, failed

TIMEOUT_S = 10.0

_SLURM_USER = re.compile(r"^SlurmUser\s*=\s*([^\s(]+)", re.MULTILINE)


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
    """Return whether Slurm answers, and whether this user may drain nodes and set priorities."""
    try:
        ask("scontrol", "ping", timeout_s=TIMEOUT_S)
        config = ask("scontrol", "show", "config", timeout_s=TIMEOUT_S).decode(errors="replace")
    except CannotAskSlurm as problem:
        return _without_slurm(problem)
    found = _SLURM_USER.search(config)
    me = pwd.getpwuid(os.geteuid()).pw_name
    if me in ("root", found[1] if found else "root"):
        return Finding("scheduler", "Slurm", Verdict.GOOD, f"answers; {me} may order nodes and jobs")
    hint = (
        "run offpeak as SlurmUser or root, or make its user an operator: sacctmgr modify user NAME set admin=operator"
    )
    return Finding("scheduler", "Slurm", Verdict.DOUBTFUL, f"answers; {me} is neither root nor SlurmUser", hint)


def _without_slurm(problem: OffpeakError) -> Finding:
    if any(Path(folder, "scontrol").exists() for folder in os.get_exec_path()):
        return failed("scheduler", "Slurm", problem)
    hint = "without a scheduler that says which nodes run no job, none is ever switched off"
    return Finding("scheduler", "Slurm", Verdict.DOUBTFUL, "no scontrol on PATH", hint)
