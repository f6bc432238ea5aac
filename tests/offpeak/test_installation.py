"""Which command adds an extra, for each way in which offpeak is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from offpeak.installation import DISTRIBUTION, install_hint, installed_version

FOREIGN = re.compile(r"\boffpeak(-hpc)?\[\w|pip3? install[^\n`]*[ '\"]offpeak\b")
"""Commands that name offpeak on the package index, where the name belongs to another project."""

METADATA = """\
Metadata-Version: 2.4
Name: offpeak-hpc
Version: 3.2.1
Requires-Dist: os-program>=1
Requires-Dist: ortools>=9.10; extra == "federation"
Requires-Dist: psycopg[binary]>=3.1; extra == "postgresql"
Requires-Dist: gridstatus>=0.37; extra == "feeds-us"
"""
ASKED = """
import sys
from pathlib import Path
from offpeak import installation
installation.PREFIX = Path({prefix!r})
installation.DEBIAN_PACKAGE = Path({debian!r})
print(installation.installed_version())
for extra in ("federation", "feeds-us"):
    print(installation.install_hint(extra))
print(installation.install_hint("pyslurm", "pyslurm==25.11.*", environment="A=b"))
"""


class Installed:
    """offpeak copied into its own virtualenv, as by pip, but without pip in it unless requested."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.venv = folder / "venv"
        self.python = self.venv / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True)
        (self.packages,) = self.venv.glob("lib/*/site-packages")
        (self.packages / "offpeak").mkdir()
        for name in ("__init__.py", "errors.py", "installation.py"):
            shutil.copy(repository / "offpeak" / name, self.packages / "offpeak")
        self.add("offpeak_hpc", METADATA)
        self.add("pip")
        (self.packages / "pip").mkdir()
        (self.packages / "pip" / "__init__.py").touch()

    def add(self, name: str, metadata: str = "Metadata-Version: 2.4\nName: x\nVersion: 1\n") -> Path:
        """Return the folder of the distribution's own files."""
        info = self.packages / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(metadata.replace("Name: x", f"Name: {name}"))
        return info

    def hints(self, *, prefix: Path = Path("/opt/elsewhere"), debian: Path = Path("/nowhere")) -> list[str]:
        """Return the hints for federation, feeds-us and pyslurm."""
        program = ASKED.format(prefix=str(prefix), debian=str(debian))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            [self.python, "-c", program], capture_output=True, text=True, check=True, env=environment, cwd="/"
        )
        version, *hints = [line.replace("sudo ", "") for line in done.stdout.splitlines()]
        assert version == "3.2.1"
        return hints


@pytest.fixture
def installed(repository: Path, tmp_path: Path) -> Installed:
    return Installed(repository, tmp_path)


def test_a_checkout_is_installed_again_with_the_extra(repository: Path) -> None:
    hint = install_hint("page").removeprefix("sudo ").rpartition("&& ")[2]
    assert hint == f"{sys.executable} -m pip install --editable '{repository}[page]'"
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["version"]) == (DISTRIBUTION, installed_version())


def test_a_virtualenv_gets_what_the_extra_consists_of(installed: Installed) -> None:
    pip = f"{installed.python} -m pip install"
    assert installed.hints() == [
        f"{pip} 'ortools>=9.10'",
        f"{pip} 'gridstatus>=0.37'",
        f"env A=b {pip} 'pyslurm==25.11.*'",
    ]


def test_a_virtualenv_without_pip_gets_it_first(installed: Installed) -> None:
    shutil.rmtree(installed.packages / "pip")
    python = installed.python
    assert installed.hints()[0] == f"{python} -m ensurepip && {python} -m pip install 'ortools>=9.10'"


def test_deploy_install_takes_locked_versions_only(installed: Installed) -> None:
    clone = {"url": "file:///root/my%20offpeak", "dir_info": {}}
    (installed.packages / "offpeak_hpc-1.dist-info" / "direct_url.json").write_text(json.dumps(clone))
    federation, us, _ = installed.hints(prefix=installed.venv)
    python = getattr(sys, "_base_executable", sys.executable)
    assert federation == f"cd '/root/my offpeak' && env EXTRAS=federation PYTHON={python} deploy/install"
    assert us == f"{installed.python} -m pip install 'gridstatus>=0.37'"


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_a_package_is_built_again_with_all_its_extras(installed: Installed, tmp_path: Path, kind: str) -> None:
    (installed.packages / "offpeak_hpc-1.dist-info" / "INSTALLER").write_text("nfpm\n")
    installed.add("psycopg")
    debian = tmp_path / "offpeak.list"
    if kind == "deb":
        debian.touch()
    federation, us, _ = installed.hints(prefix=installed.venv, debian=debian)
    command = {"deb": "dpkg --install dist/offpeak_*.deb", "rpm": "rpm --upgrade --replacepkgs dist/offpeak-*.rpm"}
    made = "in a clone of offpeak: EXTRAS=federation,postgresql make package"
    assert federation == f"{made} && {command[kind]}"
    assert us.endswith(f"deploy/install && {installed.python} -m pip install 'gridstatus>=0.37'")


def test_no_text_names_a_distribution_that_is_not_ours(repository: Path) -> None:
    assert FOREIGN.search("pip install 'offpeak[page]'")
    assert FOREIGN.search("python -m pip install --user offpeak")
    packages = ("offpeak", "plugin", "power", "predictors", "services", "sim_backend", "studies", "ui")
    folders = (*packages, "benchmarks", "docs", "deploy")
    files = [file for folder in folders for file in (repository / folder).rglob("*") if file.suffix != ".pyc"]
    files += [repository / name for name in ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml")]
    found = []
    for file in files:
        if file.is_file() and (match := FOREIGN.search(file.read_bytes().decode(errors="replace"))):
            found.append(f"{file.relative_to(repository)}: {match[0]}")
    assert not found
