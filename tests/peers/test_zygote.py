"""What is forked answers as the installed command does, with its own files, folder and environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from zygote import Zygote

INSTALLED = Path(sys.executable).with_name("offpeak")


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("--version", {}),
        ("show-config --config here.toml", {}),
        ("show-config", {"OFFPEAK_CONFIG": "here.toml"}),
        ("show-config", {"OFFPEAK_CONFIG": "absent.toml"}),
        ("show-confg", {}),
        ("simulate absent.swf --debug", {}),
        ("simulate -", {}),
        ("", {"_OFFPEAK_COMPLETE": "source_bash"}),
    ],
)
def test_it_answers_as_the_installed_one(zygote: Zygote, tmp_path: Path, words: str, changed: dict[str, str]) -> None:
    (tmp_path / "here.toml").write_text('[power]\nidle = "80W"\n')
    installed, forked = (
        subprocess.run(
            [program, *words.split()],
            cwd=tmp_path,
            env=os.environ | changed,
            input=b"this is no log\n",
            capture_output=True,
            check=False,
        )
        for program in (INSTALLED, zygote.command)
    )
    assert (forked.returncode, forked.stdout) == (installed.returncode, installed.stdout)
    # The frames of a traceback tell how it was started.
    assert forked.stderr.splitlines()[-2:] == installed.stderr.splitlines()[-2:]
    assert installed.stdout or installed.stderr
