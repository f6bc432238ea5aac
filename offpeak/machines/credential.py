"""Who logs in to BMCs, PDUs and nodes, and where the password is; it is read when it is needed."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import BadInventory
from offpeak.machines.secret import Secret, read_secret


@dataclass(frozen=True)
class Credential:
    """A login by its name in the inventory.

    The file `password_file` holds the password of a BMC, the community of SNMP v1 and v2c, or the authentication key of
    SNMPv3, whose privacy key is in `privacy_file`. `key_file` is a private key for ssh, `known_hosts` what nodes it
    believes.
    """

    name: str
    user: str = ""
    password_file: Path | None = None
    privacy_file: Path | None = None
    authentication: str = "SHA"
    privacy: str = "AES"
    key_file: Path | None = None
    known_hosts: Path | None = None

    def password(self) -> Secret:
        """Return the password; BadInput as `read_secret`, BadInventory if no file is named."""
        if self.password_file is None:
            where = f"credentials.{self.name}"
            raise BadInventory(f"{where}: has no password_file", hint=f"add password_file below [{where}]")
        return read_secret(self.password_file)
