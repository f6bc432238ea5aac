"""Whether nodes wake while the agent is dead: the question of the resume program, put to a virtual BMC."""

import ast
import asyncio
import shutil
from pathlib import Path

import pytest

from offpeak.power.check import devices as wake_path
from offpeak.power.check.findings import CheckVerdict

WAY = {
    "way": "ipmi",
    "host": "127.0.0.1",
    "port": 9,
    "user": "offpeak",
    "password_file": "/none",
    "cipher_suite": 17,
    "privilege": "admin",
}


def test_the_question_is_that_of_the_resume_program(repository: Path) -> None:
    source = (repository / "deploy" / "slurm" / "offpeak-resume").read_text()
    (function,) = (each for each in ast.parse(source).body if getattr(each, "name", "") == "ipmitool")
    requested: list[list[str]] = []
    names = {"run": lambda command, _: requested.append(command), "PROGRAM_S": 1}
    exec(compile(ast.Module([function], []), "offpeak-resume", "exec"), names)
    for privilege in ("admin", "operator"):
        names["ipmitool"](WAY | {"privilege": privilege}, "status")  # type: ignore[operator]
        assert requested[-1] == wake_path.ipmitool_command(WAY | {"privilege": privilege})


def test_a_missing_ipmitool_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_path, "_read_wake_list", lambda *_: {"n1": WAY, "n2": {"way": "wol"}})
    monkeypatch.setattr(shutil, "which", lambda _: None)
    (found,) = asyncio.run(wake_path.check_wake_path(None, ["n2", "n1"], None))  # type: ignore[arg-type]
    assert (found.subject, found.verdict) == ("ipmitool", CheckVerdict.BAD)
    assert "apt install ipmitool" in found.hint
    assert asyncio.run(wake_path.check_wake_path(None, ["n2"], None)) == []  # type: ignore[arg-type]


def test_answer_of_ipmitool_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(wake_path, "_read_wake_list", lambda *_: {"n1": WAY})
    program = tmp_path / "ipmitool"
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    for says, verdict in (
        ("echo Chassis Power is off", CheckVerdict.GOOD),
        ("echo Error: Unable to establish LAN session >&2; exit 1", CheckVerdict.BAD),
        ("true", CheckVerdict.BAD),
    ):
        program.write_text(f"#!/bin/sh\n{says}\n")
        program.chmod(0o755)
        (found,) = asyncio.run(wake_path.check_wake_path(None, ["n1"], None))  # type: ignore[arg-type]
        assert (found.subject, found.verdict) == ("n1", verdict)
