"""Runs commands on the head node of another site by ssh.

The login uses one key, which the other site may restrict to one command.
"""

import asyncio
import shlex
from collections.abc import Sequence

import asyncssh

from offpeak.errors import OffpeakError
from plugin.federation.sites import Reach
from plugin.scheduler.batch import BatchResult
from power.drivers.ssh import connect_by_key, read_private_key

MAX_OUTPUT_CHARACTERS = 16 * 1024 * 1024
NOT_STARTED = 255
"""The exit code of a command that certainly did not run."""


class SshRoute:
    """Logs in, runs one command and logs out."""

    def __init__(self, site: str, reach: Reach) -> None:
        self._site, self._reach = site, reach

    async def run(self, command: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Return the result of the command. Its code is None if the command started and its end is unknown."""
        connection: asyncssh.SSHClientConnection | None = None
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connected()
                return await _run_command(connection, shlex.join(command), stdin)
        except OffpeakError as problem:
            return BatchResult(NOT_STARTED, "", str(problem))
        except (TimeoutError, OSError, asyncssh.Error) as problem:
            return BatchResult(NOT_STARTED if connection is None else None, "", self._describe_problem(problem))
        finally:
            if connection is not None:
                connection.abort()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        reach = self._reach
        assert reach.key_file is not None
        assert reach.known_hosts is not None
        key = read_private_key(reach.key_file)
        return await connect_by_key(reach.host, reach.port, reach.user, key=key, known_hosts=reach.known_hosts)

    def _describe_problem(self, problem: Exception) -> str:
        at = f"ssh {self._reach.user}@{self._reach.host}:{self._reach.port}"
        if isinstance(problem, asyncssh.PermissionDenied):
            return f"{at}: refuses the key {self._reach.key_file}"
        if isinstance(problem, asyncssh.HostKeyNotVerifiable):
            return f"{at}: its host key is not in {self._reach.known_hosts}"
        if isinstance(problem, TimeoutError):
            return f"{at}: no answer in time"
        return f"{at}: {problem}"


async def _run_command(connection: asyncssh.SSHClientConnection, command: str, stdin: str | None) -> BatchResult:
    # asyncssh does not send end-of-file for an empty input.
    source = {"stdin": asyncssh.DEVNULL} if not stdin else {"input": stdin}
    done = await connection.run(command, check=False, errors="replace", **source)
    output, complaint = str(done.stdout or ""), str(done.stderr or "")
    if len(output) > MAX_OUTPUT_CHARACTERS:
        return BatchResult(None, "", "an endless answer")
    return BatchResult(done.exit_status, output, complaint)
