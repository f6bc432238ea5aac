"""The programs of the stand-in: each hands its words to the server beside it and prints what that answers."""

import os
import sys
from pathlib import Path

from sim_backend.pbs_standin.commands import PROGRAMS

USER_VARIABLE = "PBS_STANDIN_USER"
"""Whom root submits for."""

SCRIPT = """\
#!{python} -IS
import json, os, socket, sys

name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
text = ""
if name == "qsub" and words and os.path.isfile(words[-1]):
    text = open(words.pop(), errors="replace").read()
elif (name == "qsub" or (name == "qmgr" and "-c" not in words)) and not sys.stdin.isatty():
    text = sys.stdin.read()
try:
    server = socket.socket(socket.AF_UNIX)
    server.connect({socket!r})
    asked = {{"program": name, "words": words, "text": text, "user": os.environ.get("{user}", "")}}
    server.sendall(json.dumps(asked).encode() + b"\\n")
    answer = b"".join(iter(lambda: server.recv(65536), b""))
except OSError as problem:
    sys.stderr.write(f"{{name}}: cannot connect to server head (errno={{problem.errno}}) {{problem.strerror}}\\n")
    sys.exit(problem.errno)
said = json.loads(answer)
sys.stdout.write(said["out"])
sys.stderr.write(said["err"])
sys.exit(said["code"])
"""


def write_programs(folder: Path, socket: Path) -> Path:
    """Write the programs into a folder below this one, which is to stand in PATH, and return that."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    text = SCRIPT.format(python=os.path.realpath(sys.executable), socket=str(socket), user=USER_VARIABLE)
    for name in PROGRAMS:
        file = programs / name
        file.write_text(text)
        file.chmod(0o755)
    return programs
