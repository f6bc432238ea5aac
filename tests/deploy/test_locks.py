"""The locked versions and hashes of what the packages and deploy/install bring."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from offpeak.installation import UNLOCKED


@pytest.fixture(scope="module")
def lock(repository: Path) -> ModuleType:
    loader = SourceFileLoader("lock", str(repository / "deploy" / "package" / "lock"))
    spec = importlib.util.spec_from_loader("lock", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


def locked(lock: ModuleType, *names: str) -> dict[str, list[Requirement]]:
    """Return the locked requirements of these files by the package; each has hashes, and nothing else is there."""
    found: dict[str, list[Requirement]] = {}
    for name in names:
        head, *entries = lock.entries("\n" + (lock.LOCKS / f"{name}.txt").read_text())
        assert head.strip().startswith("# Written by"), name
        for entry in entries:
            if entry.startswith("--requirement "):
                found |= locked(lock, entry.split()[1].removesuffix(".txt"))
                continue
            pin, *hashes = [line.strip().removesuffix("\\").strip() for line in entry.strip().splitlines()]
            assert hashes, pin
            for each in hashes:
                kind, _, digest = each.partition(":")
                assert (kind, len(digest), digest.strip("0123456789abcdef")) == ("--hash=sha256", 64, ""), each
            requirement = Requirement(pin)
            assert [specifier.operator for specifier in requirement.specifier] == ["=="]
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def extras_of(lock: ModuleType) -> list[str]:
    return sorted({file.stem for file in lock.LOCKS.glob("*.txt")} - {"build", "base"})


def test_every_extra_of_a_package_is_locked(lock: ModuleType) -> None:
    assert extras_of(lock) == sorted(set(lock.PYPROJECT["project"]["optional-dependencies"]) - lock.UNLOCKED)
    assert set(lock.PYPROJECT["project"]["optional-dependencies"]) >= lock.UNLOCKED
    assert lock.UNLOCKED == UNLOCKED


def test_dependencies_of_pyproject_are_locked(lock: ModuleType) -> None:
    project = lock.PYPROJECT["project"]
    requested = {"base": project["dependencies"], "build": lock.PYPROJECT["build-system"]["requires"]}
    requested |= {extra: project["optional-dependencies"][extra] for extra in extras_of(lock)}
    for name, lines in requested.items():
        have = locked(lock, *({name} if name == "build" else {"base", name}))
        for wanted in map(Requirement, lines):
            versions = [
                next(iter(requirement.specifier)).version for requirement in have[canonicalize_name(wanted.name)]
            ]
            assert all(wanted.specifier.contains(version) for version in versions), (name, str(wanted), versions)


@pytest.mark.parametrize("name", ["base", "page", "postgresql", "predictors"])
def test_indirect_dependencies_are_locked(lock: ModuleType, name: str) -> None:
    have = locked(lock, *{"base", name})
    followed = 0
    for package in have:
        try:
            needs = [Requirement(line) for line in requires(package) or ()]
        except PackageNotFoundError:
            continue
        for need in needs:
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert canonicalize_name(need.name) in have, f"{package} needs {need}"
                followed += 1
    assert followed > 20


def test_no_index_is_named(lock: ModuleType) -> None:
    for file in lock.LOCKS.iterdir():
        assert "://" not in file.read_text(), file
        assert "index" not in file.read_text(), file


@pytest.fixture
def clone(repository: Path, tmp_path: Path) -> Path:
    """What deploy/package/install-locked looks at, and an index with one small wheel."""
    packages = tmp_path / "deploy" / "package"
    (packages / "locks").mkdir(parents=True)
    program = packages / "install-locked"
    program.write_text((repository / "deploy" / "package" / "install-locked").read_text())
    program.chmod(0o755)
    return tmp_path


def test_an_extra_without_a_lock_is_refused(clone: Path) -> None:
    for name in ("build", "base", "page"):
        (clone / "deploy" / "package" / "locks" / f"{name}.txt").write_text("")
    done = subprocess.run(
        [clone / "deploy/package/install-locked", "/bin/false"],
        env={**os.environ, "EXTRAS": "page,feeds-us"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "offpeak: error: EXTRAS=page,feeds-us: feeds-us has no lock of versions and hashes in deploy/package/locks\n"
        "  hint: these have one: page\n"
    )


@pytest.mark.parametrize("tampered", [True, False])
def test_a_file_with_another_hash_is_refused(clone: Path, tampered: bool) -> None:
    wheel = clone / "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("small.py", "")
        archive.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        archive.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("small-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(b"another" if tampered else wheel.read_bytes()).hexdigest()
    locks = clone / "deploy" / "package" / "locks"
    for name in ("build", "page"):
        (locks / f"{name}.txt").write_text("")
    (locks / "base.txt").write_text(f"small==1.0 \\\n    --hash=sha256:{digest}\n")
    environment = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(clone), "PIP_DRY_RUN": "1"}
    done = subprocess.run(
        [clone / "deploy/package/install-locked", sys.executable],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    # Without a pyproject.toml offpeak itself cannot be installed, which comes after the packages that it needs.
    assert done.returncode != 0
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is tampered, done.stderr
    assert ("not installable" in done.stderr) is not tampered, done.stderr
