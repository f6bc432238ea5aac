"""A private key of our own for ssh, and a login by it and by nothing else."""

from pathlib import Path

import asyncssh

from offpeak.errors import BadInventory


def read_key(file: Path) -> asyncssh.SSHKey:
    """Return the key; BadInventory if it cannot be read, has a passphrase, or others may read it."""
    try:
        private = file.stat().st_mode & 0o077 == 0
        key = asyncssh.read_private_key(file)
    except OSError as problem:
        hint = f"make one: ssh-keygen -t ed25519 -N '' -f {file}"
        raise BadInventory(f"{file}: cannot be read: {problem.strerror}", hint=hint) from None
    except asyncssh.KeyImportError:
        raise BadInventory(
            f"{file}: no private key without a passphrase", hint=f"try: ssh-keygen -y -f {file}"
        ) from None
    if not private:
        raise BadInventory(f"{file}: others than its owner may read it", hint=f"chmod 600 {file}")
    return key


async def logged_in(
    host: str, port: int, user: str, *, key: asyncssh.SSHKey, known_hosts: Path
) -> asyncssh.SSHClientConnection:
    """Return a connection; what asyncssh and the system raise where there is none."""
    return await asyncssh.connect(
        host,
        port,
        username=user,
        client_keys=[key],
        known_hosts=str(known_hosts),
        # Nothing but that key and that file: no agent, no ~/.ssh, no password.
        config=None,
        agent_path=None,
        preferred_auth="publickey",
        gss_kex=False,
        gss_auth=False,
    )
