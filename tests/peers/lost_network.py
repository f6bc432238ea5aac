"""A command that is sent when the network is lost; prints what its kernel still has to deliver. To run in a network
namespace: `unshare --net --map-root-user python lost_network.py`.
"""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import requests

from offpeak.web_session import WebSession

TIMEOUT_S = 10.0


def main() -> None:
    """Send the command over an open connection, and wait until it counts as failed."""
    network("up")
    with socket.create_server(("127.0.0.1", 0)) as server, WebSession() as session:
        threading.Thread(target=answer_once, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        session.get(url, timeout=TIMEOUT_S)
        session.before_sending(lambda: network("down"))
        try:
            session.post(url, json={"ResetType": "GracefulShutdown"}, timeout=TIMEOUT_S)
        except requests.RequestException:
            sys.stdout.write(f"{undelivered()}\n")


def network(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def answer_once(server: socket.socket) -> None:
    connection, _ = server.accept()
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    connection.recv(65_536)


def undelivered() -> list[str]:
    """Return the queues of all TCP sockets here, open or not, that have something to send."""
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return [row[4] for row in rows if not row[4].startswith("00000000:")]


if __name__ == "__main__":
    main()
