"""What is typed as `offpeak` where a zygote runs: hands its files, folder and environment on, and ends as it ends.

As a program: python zygote_typed.py SOCKET WORD...
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

KILLED = 128 + signal.SIGKILL


def typed(address: str, arguments: list[str]) -> int:
    """Return the exit code of `offpeak` with these words."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        request = {"words": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
        socket.send_fds(line, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
        process = int(line.recv(100))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(process, number))
        for file in (0, 1, 2):
            os.close(file)
        line.sendall(b"\n")
        return int(line.recv(100) or KILLED)


if __name__ == "__main__":
    sys.exit(typed(sys.argv[1], sys.argv[2:]))
