"""What is shipped: exactly our packages, whole, under names that nobody else has."""

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path, PurePosixPath

import pytest

PACKAGES = ["offpeak", "plugin", "power", "predictors", "services", "sim_backend", "studies", "ui"]
INGREDIENTS = ["pyproject.toml", "README.md", "LICENSE"]


@pytest.fixture(scope="module")
def shipped(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in a wheel built from a clean copy, where nothing of an earlier build is left."""
    copy = tmp_path_factory.mktemp("copy")
    for name in INGREDIENTS:
        shutil.copy(repository / name, copy)
    for folder in [*PACKAGES, "tests", "docs", "benchmarks"]:
        shutil.copytree(repository / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    done = subprocess.run(build, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (copy / "dist").glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_top_level(shipped: list[str]) -> None:
    top = {PurePosixPath(name).parts[0] for name in shipped}
    assert sorted(name for name in top if not name.endswith(".dist-info")) == PACKAGES
    assert [name.split("-")[0] for name in top if name.endswith(".dist-info")] == ["offpeak_hpc"]


def test_ships_every_module_and_sample(repository: Path, shipped: list[str]) -> None:
    modules = [file for package in PACKAGES for file in (repository / package).rglob("*.py")]
    samples = [file for file in (repository / "sim_backend" / "sample").iterdir() if file.suffix == ".gz"]
    node_classes = [*(repository / "offpeak" / "node_classes").glob("*.toml")]
    families = [*(repository / "power" / "meters" / "snmp" / "families").glob("*.toml")]
    sites = repository / "plugin" / "federation" / "sites.example.toml"
    kinds, folders = {".css", ".js", ".html", ".svg"}, ("ui/report", "services/page")
    page = [file for name in folders for file in (repository / name).iterdir() if file.suffix in kinds]
    assert samples
    assert node_classes
    assert families
    assert page
    files = [*modules, *samples, *node_classes, *families, sites, *page]
    assert {file.relative_to(repository).as_posix() for file in files} <= set(shipped)


def test_nobody_else_owns_our_names() -> None:
    owners = packages_distributions()
    assert {package: set(owners[package]) for package in PACKAGES} == {package: {"offpeak-hpc"} for package in PACKAGES}
