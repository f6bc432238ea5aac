"""The files of /sys and /proc, and the programs, that offpeak-node finds on a node."""

from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "deploy" / "node" / "offpeak-node"
BOOT = "6d5e0c39-0bd6-4a2e-a1c1-{:012}"

RTCWAKE = """\
#!/bin/sh
echo "$@" >>"{root}/rtcwake.log"
case $* in
    "-m no -s "*) echo "alarm $4" >"{root}/sys/class/rtc/rtc0/wakealarm" ;;
    "-m disable") : >"{root}/sys/class/rtc/rtc0/wakealarm" ;;
esac
"""
ETHTOOL = """\
#!/bin/sh
printf 'Settings for %s:\\n\\tSupports Wake-on: pumbg\\n\\tWake-on: g\\n' "$1"
"""


def write_tree(root: Path, files: dict[str, str]) -> None:
    """Write the files below `root`; those that are scripts can be run."""
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)


def node_tree(root: Path) -> dict[str, str]:
    """A server that can do everything: S3, an alarm clock, RAPL and a power sensor."""
    rapl = "sys/class/powercap/intel-rapl:{}/{}"
    return {
        "sys/power/state": "freeze mem disk\n",
        "sys/power/mem_sleep": "s2idle [deep]\n",
        "sys/class/rtc/rtc0/wakealarm": "",
        "sys/class/net/eth0/device/vendor": "0x8086\n",
        "sys/class/net/lo/mtu": "65536\n",
        "proc/uptime": "1234.56 4321.00\n",
        "proc/sys/kernel/random/boot_id": BOOT.format(1) + "\n",
        "proc/1/comm": "systemd\n",
        "proc/1/environ": "HOME=/\0",
        rapl.format("0", "name"): "package-0\n",
        rapl.format("0", "energy_uj"): "262143328000\n",
        rapl.format("0", "max_energy_range_uj"): "262143328850\n",
        "sys/class/hwmon/hwmon1/name": "power_meter\n",
        "sys/class/hwmon/hwmon1/power1_average": "212000000\n",
        "usr/sbin/rtcwake": RTCWAKE.format(root=root),
        "usr/sbin/ethtool": ETHTOOL,
    }
