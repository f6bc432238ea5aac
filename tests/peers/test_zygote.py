"""What is forked answers as the installed command does, with its own files, folder and environment."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from zygote import Zygote

INSTALLED = Path(sys.executable).with_name("offpeak")


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ("show-config", {"OFFPEAK_CONFIG": "here.toml"}),
        ("simulate absent.swf --debug", {}),
        ("simulate -", {}),
    ],
)
def test_it_answers_as_the_installed_one(
    zygote: Zygote, tmp_path: Path, arguments: str, changed: dict[str, str]
) -> None:
    (tmp_path / "here.toml").write_text('[power]\nidle = "80W"\n')
    installed, forked = (
        subprocess.run(
            [program, *arguments.split()],
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


def test_nothing_is_done_before_the_process_is_known(zygote: Zygote, tmp_path: Path) -> None:
    request = {"words": ["--version"], "folder": str(tmp_path), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as line, (tmp_path / "said").open("wb") as output:
        line.settimeout(300)
        line.connect(str(zygote.address))
        socket.send_fds(line, [json.dumps(request).encode() + b"\n"], [output.fileno()] * 3)
        process = int(line.recv(100))
        line.settimeout(1)
        with pytest.raises(TimeoutError):
            line.recv(100)
        os.kill(process, 0)
        assert (tmp_path / "said").read_bytes() == b""
        line.settimeout(300)
        line.sendall(b"\n")
        assert line.recv(100) == b"0"
    assert (tmp_path / "said").read_bytes().startswith(b"offpeak ")
