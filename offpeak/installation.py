"""How this copy of offpeak was installed: its version, and the command that adds an optional dependency to it.

On the package index the name `offpeak` belongs to another project. Therefore printed pip commands never name offpeak as
a distribution: pip gets the folder of a checkout, or the packages of the extra.
"""

import json
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from offpeak.errors import BadInput

DISTRIBUTION = "offpeak-hpc"
PACKAGED = "nfpm"
"""The content of INSTALLER in the DEB and the RPM; deploy/package/build writes it."""

PREFIX = Path("/opt/offpeak")
"""The virtualenv of the DEB, the RPM and deploy/install."""

DEBIAN_PACKAGE = Path("/var/lib/dpkg/info/offpeak.list")
ALWAYS_PACKAGED = "page"
UNLOCKED = frozenset({"bills", "dev", "docs", "package", "feeds-us", "pyslurm", "scale"})
"""Extras without a lock in deploy/package/locks, so that neither EXTRAS nor a package can bring them."""

_REQUIREMENT = re.compile(r"(?P<package>[^;]+?)\s*;\s*extra == ['\"](?P<extra>[\w-]+)['\"]")


def installed_version() -> str:
    """Return the version of the program that runs: of its checkout, else of the installed distribution."""
    checkout = _checkout()
    if checkout is None:
        return distribution(DISTRIBUTION).version
    return str(tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"])


def missing_extra(what: str, extra: str, *packages: str) -> BadInput:
    """Return the error that `what` needs packages that are not installed, with the command that installs them."""
    needed, verb = " and ".join(packages), "is" if len(packages) == 1 else "are"
    return BadInput(f"{what} needs {needed}, which {verb} not installed", hint=install_hint(extra))


def install_hint(extra: str, *requirements: str, environment: str = "") -> str:
    """Return the command that adds the extra to this installation, or those requirements instead of its own.

    `environment` is what pip needs in its environment, as `NAME=value`.
    """
    checkout = _checkout()
    if checkout is not None and not requirements:
        return _pip("--editable", shlex.quote(f"{checkout}[{extra}]"))
    own = None if checkout else _own()
    needed = [shlex.quote(requirement) for requirement in requirements or _requirements(own).get(extra, ())]
    if own is not None and (own.read_text("INSTALLER") or "").strip() == PACKAGED:
        return _in_a_package(extra, _requirements(own), _pip(*needed, environment=environment, has_pip=True))
    if own is not None and Path(sys.prefix) == PREFIX and extra not in UNLOCKED:
        origin = json.loads(own.read_text("direct_url.json") or "{}")
        clone = unquote(urlsplit(origin.get("url", "")).path)
        # With another Python deploy/install recreates the virtualenv without its extras.
        python = shlex.quote(getattr(sys, "_base_executable", sys.executable))
        command = f"{_sudo()}env EXTRAS={extra} PYTHON={python} deploy/install"
        return f"cd {shlex.quote(clone)} && {command}" if clone else f"in a clone of offpeak: {command}"
    return _pip(*needed, environment=environment)


def _checkout() -> Path | None:
    """Return the repository that this file is part of, None if the program was copied into a virtualenv."""
    folder = Path(__file__).resolve().parents[1]
    return folder if (folder / "pyproject.toml").is_file() else None


def _own() -> Distribution | None:
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def _requirements(own: Distribution | None) -> Mapping[str, list[str]]:
    """Return the requirements of each extra."""
    found: dict[str, list[str]] = {}
    for line in (own.requires or ()) if own else ():
        if match := _REQUIREMENT.fullmatch(line):
            found.setdefault(match["extra"], []).append(match["package"])
    return found


def _pip(*arguments: str, environment: str = "", has_pip: bool | None = None) -> str:
    python = shlex.quote(sys.executable)
    install = " ".join([f"env {environment}" if environment else "", python, "-m pip install", *arguments]).strip()
    # Some tools make a virtualenv without pip.
    is_there = find_spec("pip") is not None if has_pip is None else has_pip
    steps = [install] if is_there else [f"{python} -m ensurepip", install]
    sudo = "" if os.access(sys.prefix, os.W_OK) else "sudo "
    return " && ".join(f"{sudo}{step}" for step in steps)


def _sudo() -> str:
    return "" if os.geteuid() == 0 else "sudo "


def _in_a_package(extra: str, requirements: Mapping[str, list[str]], pip: str) -> str:
    """Return the commands that build and install a package with its extras and this one."""
    if extra in UNLOCKED:
        own = f"{_sudo()}deploy/install && {pip}"
        return f"no package contains it; remove the package, and in a clone of offpeak: {own}"
    has = {requirement for requirement, packages in requirements.items() if all(map(_is_installed, packages))}
    extras = ",".join(sorted((has | {extra}) - UNLOCKED - {ALWAYS_PACKAGED}))
    debian = "dpkg --install dist/offpeak_*.deb"
    install = debian if DEBIAN_PACKAGE.exists() else "rpm --upgrade --replacepkgs dist/offpeak-*.rpm"
    return f"in a clone of offpeak: EXTRAS={extras} make package && {_sudo()}{install}"


def _is_installed(requirement: str) -> bool:
    try:
        distribution(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    except PackageNotFoundError:
        return False
    return True
