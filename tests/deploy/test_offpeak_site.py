"""The forced command of a site: it runs what a broker needs, and nothing else, and no shell reads it."""

import subprocess
from pathlib import Path

import pytest


def asked(repository: Path, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    for name in ("sbatch", "timeout", "squeue", "sh"):
        (folder / name).write_text('#!/bin/sh\nprintf "[%s]" "$0" "$@"\n')
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "SSH_ORIGINAL_COMMAND": command}
    program = repository / "deploy" / "federation" / "offpeak-site"
    return subprocess.run([program], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("squeue --all '--format=%A|%T|%k'", ["squeue", "--all", "--format=%A|%T|%k"]),
        ("timeout 20 sbatch '--comment=a; id $(id)'", ["timeout", "20", "sbatch", "--comment=a; id $(id)"]),
    ],
)
def test_what_a_broker_needs(repository: Path, tmp_path: Path, command: str, words: list[str]) -> None:
    done = asked(repository, tmp_path, command)
    assert done.stdout == "".join(f"[{word}]" for word in [str(tmp_path / words[0]), *words[1:]])


@pytest.mark.parametrize(
    "command",
    [
        "",
        "sh -c id",
        "timeout 20 sh -c id",
        "timeout 9999 sbatch",
        "timeout --foreground sbatch x",
        "offpeak agent",
        "'",
    ],
)
def test_nothing_else(repository: Path, tmp_path: Path, command: str) -> None:
    done = asked(repository, tmp_path, command)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not allowed" in done.stderr
