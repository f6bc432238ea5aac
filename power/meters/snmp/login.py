"""How one logs in to a PDU: a community, or an SNMPv3 user with up to two keys."""

from dataclasses import dataclass

from offpeak.errors import BadInventory
from offpeak.machines.credentials import Credential, Secret, read_secret
from offpeak.machines.inventory import Pdu
from offpeak.text import did_you_mean

VERSIONS = ("1", "2c", "3")
AUTHENTICATIONS = ("MD5", "SHA", "SHA-224", "SHA-256", "SHA-384", "SHA-512")
PRIVACIES = ("DES", "3DES", "AES", "AES-192", "AES-256", "AES-192-C", "AES-256-C")
"""AES-192 and AES-256 extend keys as net-snmp does; with -C as Cisco does."""


@dataclass(frozen=True)
class Login:
    """What is said to a PDU; no key is None. Keys and communities are never shown."""

    version: str
    user: str = ""
    community: Secret | None = None
    key: Secret | None = None
    privacy_key: Secret | None = None
    authentication: str = "SHA"
    privacy: str = "AES"

    @property
    def keys(self) -> Secret:
        """All that may be refused, as one secret: changing either key makes another one."""
        return Secret(b"\0".join(key.value for key in (self.key, self.privacy_key) if key))


def login_of(pdu: Pdu) -> Login:
    """Return what the files say now; BadInventory for what SNMP does not know, BadInput as `read_secret`."""
    credential, where = pdu.credential, f"credentials.{pdu.credential.name}"
    if pdu.version not in VERSIONS:
        raise BadInventory(f"pdus.{pdu.name}: {pdu.version!r} is no version of SNMP", hint='known: "1", "2c", "3"')
    if pdu.version != "3":
        return Login(pdu.version, community=credential.password())
    if not credential.user:
        raise BadInventory(f"{where}: SNMPv3 has a user", hint=f"add user below [{where}]")
    if credential.privacy_file and not credential.password_file:
        raise BadInventory(f"{where}: privacy goes with authentication", hint=f"add password_file below [{where}]")
    _check(credential, "authentication", credential.authentication, AUTHENTICATIONS)
    _check(credential, "privacy", credential.privacy, PRIVACIES)
    return Login(
        "3",
        credential.user,
        None,
        credential.password() if credential.password_file else None,
        read_secret(credential.privacy_file) if credential.privacy_file else None,
        credential.authentication,
        credential.privacy,
    )


def _check(credential: Credential, key: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise BadInventory(
            f"credentials.{credential.name}.{key}: {word!r} is not known", hint=did_you_mean(word, known)
        )
