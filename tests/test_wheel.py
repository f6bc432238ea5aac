"""What is shipped: one package, whole, which no file beside it can take apart."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from glob import glob
from pathlib import Path, PurePosixPath

import pytest

FOLDERS = ("plugin", "power", "predictors", "sim_backend", "services", "ui")
"""The folders at the top of the repository that `offpeak/` has links to."""
INGREDIENTS = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of an sdist of a clean copy, where nothing of an earlier build is left."""
    copy = tmp_path_factory.mktemp("copy")
    for name in INGREDIENTS:
        shutil.copy(repository / name, copy)
    for folder in ("offpeak", *FOLDERS, "tests", "docs", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / folder, copy / folder, symlinks=True, ignore=ignored)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"]
    done = subprocess.run(build, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (copy / "dist").glob("*.whl")
    return zipfile.ZipFile(file)


def test_only_offpeak_lands_in_site_packages(wheel: zipfile.ZipFile) -> None:
    top = {PurePosixPath(name).parts[0] for name in wheel.namelist()}
    assert sorted(name.split("-")[0] for name in top) == ["offpeak", "offpeak_hpc"]


def test_the_studies_have_the_version_that_they_need(repository: Path) -> None:
    product, studies = (
        tomllib.loads((repository / file).read_text())["project"]
        for file in ("pyproject.toml", "studies/pyproject.toml")
    )
    assert studies["version"] == product["version"]
    assert f"{product['name']}=={product['version']}" in studies["dependencies"]


def test_all_modules_and_data_files_are_shipped(repository: Path, wheel: zipfile.ZipFile) -> None:
    kinds = ("py", "pyi", "typed", "csv", "toml", "gz", "css", "js", "html", "svg")
    files = {file for kind in kinds for file in glob(f"offpeak/**/*.{kind}", root_dir=repository, recursive=True)}
    assert all(any(file.startswith(f"offpeak/{folder}/") for file in files) for folder in FOLDERS)
    assert files <= set(wheel.namelist())


def test_files_named_like_our_folders_are_in_nobodys_way(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "installed")
    here = tmp_path / "here"
    here.mkdir()
    for name in FOLDERS:
        (here / f"{name}.py").write_text("raise ImportError('a file of the user')\n")
        (here / name).mkdir()
        (here / name / "__init__.py").write_text("raise ImportError('a folder of the user')\n")
    (here / "script.py").write_text(
        "import offpeak\n"
        "from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES\n"
        "replayed = offpeak.replay(offpeak.price(offpeak.load(SAMPLE_LOG), prices=SAMPLE_PRICES), policy='easy')\n"
        "print(offpeak.__file__, len(offpeak.compare(replayed)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{tmp_path}/installed/offpeak/__init__.py 1\n", "")
