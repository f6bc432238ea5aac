"""The container image as it is described. `make container-trial` builds it and runs its demo; that takes minutes."""

import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from offpeak.ui.command import TASKS

Instruction = tuple[str, str]


@pytest.fixture
def stages(repository: Path) -> list[list[Instruction]]:
    """The instructions of each stage."""
    text = (repository / "deploy" / "container" / "Containerfile").read_text()
    lines = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", " ").splitlines()
    stages: list[list[Instruction]] = [[]]
    for line in filter(None, lines):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, rest.strip()))
    return stages


def values(stage: list[Instruction], name: str) -> list[str]:
    return [rest for each, rest in stage if each == name]


def test_what_is_copied_is_there_and_enough_to_install(repository: Path, stages: list[list[Instruction]]) -> None:
    copied = [shlex.split(rest)[:-1] for rest in values(stages[1], "COPY")]
    names = {name for group in copied for name in group}
    assert all((repository / name).exists() for name in names)
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    packages = {name.partition(".")[0] for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    # The folders that offpeak/ has links to.
    packages |= {link.name for link in (repository / "offpeak").iterdir() if link.is_symlink()}
    assert names == packages | {"pyproject.toml", "README.md", "LICENSE", "deploy/package"}
    assert project["project"]["readme"] in names
    assert values(stages[1], "RUN")[-1].endswith("/src/deploy/package/install-locked /opt/offpeak/bin/python")


def test_the_image_runs_a_command_of_offpeak_as_an_ordinary_user(stages: list[list[Instruction]]) -> None:
    last = stages[-1]
    assert values(stages[0], "ARG") == ["BASE=docker.io/library/debian:12-slim"]
    assert [rest for stage in stages for rest in values(stage, "FROM")] == ["$BASE AS build", "$BASE"]
    assert values(last, "COPY") == ["--from=build /opt/offpeak /opt/offpeak"]
    assert values(last, "USER") == ["offpeak"]
    names = [name for name, _ in last]
    assert "RUN" not in names[names.index("USER") :]
    assert json.loads(values(last, "ENTRYPOINT")[0]) == ["offpeak"]
    (command,) = json.loads(values(last, "CMD")[0])
    assert command in {name for group in TASKS.values() for name in group}


def test_the_health_is_that_of_the_page(stages: list[list[Instruction]]) -> None:
    (health,) = values(stages[-1], "HEALTHCHECK")
    python, flag, program = json.loads(health.partition("CMD ")[2])
    assert (python, flag) == ("/opt/offpeak/bin/python", "-c")
    compile(program, "healthcheck", "exec")
    assert f"('127.0.0.1', {values(stages[-1], 'EXPOSE')[0]})" in program


def test_the_trial_is_a_program(repository: Path) -> None:
    assert os.access(repository / "deploy" / "container" / "try", os.X_OK)
