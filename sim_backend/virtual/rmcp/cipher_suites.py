"""The cipher suites of a virtual BMC, and what is computed with them: sections 13.28 to 13.32."""

import hmac
import secrets
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from sim_backend.virtual.rmcp.framing import Malformed

BLOCK = 16


@dataclass(frozen=True)
class CipherSuite:
    """A suite by the numbers of its algorithms; `check_bytes` is how much of a code stands at a packet's end."""

    number: int
    authentication: int
    integrity: int
    hash_name: str
    check_bytes: int
    confidentiality: int = 1

    @property
    def algorithms(self) -> tuple[int, int, int]:
        """The numbers for authentication, integrity and confidentiality."""
        return self.authentication, self.integrity, self.confidentiality

    def code(self, key: bytes, *parts: bytes) -> bytes:
        """Return the keyed hash of the parts one after another."""
        return hmac.digest(key, b"".join(parts), self.hash_name)


SUITES = (CipherSuite(3, 1, 1, "sha1", 12), CipherSuite(17, 3, 4, "sha256", 16))
"""HMAC-SHA1 with SHA1-96, HMAC-SHA256 with SHA256-128; both with AES-CBC-128."""


@dataclass(frozen=True)
class Keys:
    """What a session's packets are protected with."""

    integrity: bytes
    confidentiality: bytes


def keys_of(suite: CipherSuite, session_key: bytes) -> Keys:
    """Return the keys made of the session integrity key (section 13.32)."""
    return Keys(suite.code(session_key, b"\x01" * 20), suite.code(session_key, b"\x02" * 20)[:16])


def encrypted(key: bytes, payload: bytes) -> bytes:
    """Return initialization vector and cipher text, with the padding 1, 2, 3 ... of table 13-20."""
    pad = -(len(payload) + 1) % BLOCK
    vector = secrets.token_bytes(BLOCK)
    cipher = Cipher(AES(key), CBC(vector)).encryptor()
    return vector + cipher.update(payload + bytes(range(1, pad + 1)) + bytes([pad])) + cipher.finalize()


def decrypted(key: bytes, payload: bytes) -> bytes:
    """Return the plain payload; Malformed if it is no number of blocks, or its padding is wrong."""
    if len(payload) < 2 * BLOCK or len(payload) % BLOCK:
        raise Malformed("not whole blocks")
    cipher = Cipher(AES(key), CBC(payload[:BLOCK])).decryptor()
    plain = cipher.update(payload[BLOCK:]) + cipher.finalize()
    pad = plain[-1]
    if pad >= BLOCK or plain[-1 - pad : -1] != bytes(range(1, pad + 1)):
        raise Malformed("padding")
    return plain[: -1 - pad]
