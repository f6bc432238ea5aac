"""The programs of the stand-in: each hands its words to the server beside it and prints what that answers."""

import os
import sys
from pathlib import Path

from sim_backend.pbs_standin.commands import PROGRAMS

USER_VARIABLE = "PBS_STANDIN_USER"
"""Whom root submits for."""

# What is imported here is all that a call takes besides the server: the modules that json and socket bring along would
# make it more than twice as long.
SCRIPT = """\
#!{python} -IS
import _socket, sys
from posix import environ

name, words, text = sys.argv[0].rpartition("/")[2], sys.argv[1:], ""
try:
    script = open(words[-1], errors="replace") if name == "qsub" and words else None
except OSError:
    script = None
if script:
    words.pop()
elif (name == "qsub" or (name == "qmgr" and "-c" not in words)) and not sys.stdin.isatty():
    script = sys.stdin
if script:
    text = script.read()
answer = b""
try:
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect({socket!r})
    told = "\\0".join((name, text, *words)).encode(errors="surrogateescape")
    server.sendall(environ.get(b"{user}", b"") + b"\\0" + told)
    server.shutdown(_socket.SHUT_WR)
    while part := server.recv(65536):
        answer += part
except OSError as problem:
    sys.stderr.write(f"{{name}}: cannot connect to server head (errno={{problem.errno}}) {{problem.strerror}}\\n")
    sys.exit(problem.errno)
code, complaint, said = answer.split(b"\\0", 2)
sys.stdout.buffer.write(said)
sys.stderr.buffer.write(complaint)
sys.exit(int(code))
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
