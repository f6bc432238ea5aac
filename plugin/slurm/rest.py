"""Slurm as slurmrestd tells it, with a token from a file."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from offpeak.errors import BadSetting
from offpeak.machines.credentials import Secret, read_secret
from plugin.slurm.ask import CannotAskSlurm, SlurmIsSilent
from plugin.slurm.jobs_json import jobs_of_json
from plugin.slurm.nodes_json import nodes_of_json, reservations_of_json
from plugin.slurm.reading import Reading

if TYPE_CHECKING:
    from requests import Session

TOKEN = "write a new one: (umask 077; scontrol token lifespan=31536000 | cut -d= -f2 > {path})"
DAEMON = "look whether slurmrestd runs at {url}, and at its log"

_JOBS = re.compile(r"/slurm/(v0\.0\.(\d+))/jobs/?")


class SlurmRest:
    """slurmrestd at `url`; it is asked in the newest version that it speaks. The token is read anew each time."""

    def __init__(self, url: str | None, token: Path | None, *, timeout_s: float) -> None:
        if not url or not token:
            raise BadSetting(
                'read = "rest" needs rest_url and rest_token below [slurm]',
                hint='rest_url = "http://127.0.0.1:6820", rest_token = "/etc/offpeak/slurm.token"',
            )
        self._url, self._token, self._timeout_s = url.rstrip("/"), token, timeout_s

    def read(self) -> Reading:
        """Return jobs, nodes and reservations; CannotAskSlurm if it refuses, SlurmIsSilent if it is silent."""
        with self._session() as session:
            version = newest_version(self._get(session, "/openapi/v3"))
            if not version:
                raise CannotAskSlurm(
                    f"{self._url}: offers no jobs", hint="start it with openapi plugins: slurmrestd -s"
                )
            jobs, nodes, reservations = (
                self._get(session, f"/slurm/{version}/{what}") for what in ("jobs", "nodes", "reservations")
            )
        return Reading(
            jobs_of_json(jobs, source=self._url),
            nodes_of_json(nodes, source=self._url),
            reservations_of_json(reservations, source=self._url),
        )

    @contextmanager
    def _session(self) -> Iterator["Session"]:
        # It takes a while to import, and only who asks slurmrestd needs it.
        from requests import RequestException, Session, Timeout

        token = read_secret(self._token)
        with Session() as session:
            session.trust_env = False
            session.headers["X-SLURM-USER-NAME"] = user_of(token)
            session.headers["X-SLURM-USER-TOKEN"] = token.value
            try:
                yield session
            except Timeout:
                told = f"{self._url}: no answer within {self._timeout_s:g} s"
                raise SlurmIsSilent(told, hint=DAEMON.format(url=self._url)) from None
            except RequestException as problem:
                told = f"{self._url}: cannot be asked: {type(problem).__name__}"
                raise SlurmIsSilent(told, hint=DAEMON.format(url=self._url)) from None

    def _get(self, session: "Session", path: str) -> bytes:
        answer = session.get(f"{self._url}{path}", timeout=self._timeout_s, allow_redirects=False)
        if answer.status_code in (401, 403):
            told = f"{self._url}: refuses the token in {self._token}"
            raise CannotAskSlurm(told, hint=TOKEN.format(path=self._token))
        if not answer.ok:
            told = f"{self._url}{path}: answers {answer.status_code} {answer.reason}"
            raise CannotAskSlurm(told, hint="slurmrestd's log, or `journalctl -u slurmrestd`, says why")
        return answer.content


def newest_version(openapi: bytes) -> str:
    """Return the newest version, such as v0.0.44, in which the server tells of jobs; "" if there is none."""
    try:
        paths = json.loads(openapi)["paths"]
    except (ValueError, KeyError, TypeError):
        return ""
    versions = {int(match[2]): match[1] for match in map(_JOBS.fullmatch, paths) if match}
    return versions[max(versions)] if versions else ""


def user_of(token: Secret) -> str:
    """Return the user whom a JSON web token is for; "root" if it does not tell."""
    try:
        claims = token.value.split(b".")[1]
        return str(json.loads(base64.urlsafe_b64decode(claims + b"=="))["sun"])
    except (IndexError, KeyError, TypeError, ValueError):
        return "root"
