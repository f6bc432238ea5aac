"""What `offpeak simulate` says to what cannot be: exit code 2, one line and a hint, nothing written."""

import gzip
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from offpeak.ui.command import run

Done = subprocess.CompletedProcess[str]
Offpeak = Callable[..., Done]

HEADER = "; MaxProcs: 8\n"
LINES = "".join(f"{job} {10 * job} 0 3600 4 -1 -1 4 7200 -1 1 1 -1 -1 -1 -1 -1 -1\n" for job in range(1, 9))
LOG = HEADER + LINES
DAY = "utc,price\n" + "".join(f"2023-01-02T{hour:02}:00Z,{hour}\n" for hour in range(24))

FILES: dict[str, bytes] = {
    "log.swf": LOG.encode(),
    "empty.swf": b"",
    "notes.txt": b"hello world\n",
    "jobs.json": b'{"jobs": []}\n',
    "page.html": b"<!doctype html>\n",
    "headless.txt": b"1|ann|physics|batch|COMPLETED|4\n",
    "table.csv": b"id;user;start\n1;2;3\n",
    "semicolons.swf": LINES.replace(" ", ";").encode(),
    "quoted.csv": b'"JobIDRaw";"Submit";"Start"\n"1";"2023-01-01T00:00:00";"2023-01-01T00:00:00"\n',
    "header.swf": HEADER.encode(),
    "binary.swf": b"\x7fELF\x02\x01\x01\0\0\0" * 50,
    "cut.swf.gz": gzip.compress(LOG.encode())[:60],
    "columns.swf": (LOG + "1 2 3\n").encode(),
    "words.swf": (LOG + "9 100 0 hour 4 -1 -1 4 7200 -1 1 1 -1 -1 -1 -1 -1 -1\n").encode(),
    "wide.swf": ("; MaxProcs: 2\n" + LINES).encode(),
    "unsized.swf": LINES.encode(),
    "twice_eur_per_mwh.csv": (DAY + "2023-01-02T23:00Z,1\n").encode(),
    "naive_eur_per_mwh.csv": DAY.replace("Z", "").encode(),
    "words_eur_per_mwh.csv": DAY.replace(",7", ",seven").encode(),
    "short_eur_per_mwh.csv": "".join(DAY.splitlines(keepends=True)[:5]).encode(),
    "prices.csv": DAY.encode(),
    "p_eur_per_mwh.csv": DAY.encode(),
    "c_g_per_kwh.csv": DAY.encode(),
    "site.toml": b"[scheduling]\n\nwindw = 5\n",
}

CASES: list[tuple[str, str, str]] = [
    ("empty.swf", "empty.swf: is empty", "a log has one line of 18 numbers for each job"),
    ("notes.txt", "notes.txt: is not a job log: its first line is 'hello world'", "offpeak reads `sacct -P` output, "),
    (
        "--lenient notes.txt",
        "notes.txt: is not a job log: its first line is 'hello world'",
        "offpeak reads `sacct -P` output",
    ),
    ("jobs.json", "jobs.json: is not a job log: it begins like JSON", "what is read: `sacct -a -D -X -P "),
    (
        "page.html",
        "page.html: is not a job log: it begins like a page of HTML or XML",
        "offpeak reads `sacct -P` output, ",
    ),
    ("headless.txt", "headless.txt: is not a job log: it lacks the line with the names", "without --noheader: `sacct "),
    (
        "table.csv",
        "table.csv: is not a job log: it is a table separated by semicolons: 'id;user;start'",
        "offpeak reads `sacct -P` output, ",
    ),
    (
        "semicolons.swf",
        "semicolons.swf: is not a job log: semicolons separate its numbers",
        "blanks do in SWF: `tr ';' ' '`",
    ),
    (
        "quoted.csv",
        "quoted.csv: is not a job log: the names of its columns are in quotation marks",
        "`tr -d '\"'` takes ",
    ),
    ("header.swf", "header.swf: has no job lines", "a log has one line of 18 numbers for each job"),
    ("binary.swf", "binary.swf: is a binary file", "plain text is expected, as it is or compressed with gzip"),
    ("cut.swf.gz", "cut.swf.gz: the gzip file ends too early", "copy or download it again; "),
    ("columns.swf", "columns.swf:10: 3 fields where 18 are expected", "--lenient skips such lines and counts them"),
    ("words.swf", "words.swf:10: field 4 is not a number: 'hour'", "--lenient skips such lines and counts them"),
    ("wide.swf", "wide: no job can run: 8 jobs: wider than the machine (2)", "give the machine's size with --nodes"),
    (
        "unsized.swf",
        "unsized: the log does not say how large the machine is",
        "--nodes N, in the log's own unit; its widest job asks for 4",
    ),
    ("absent.swf", "absent.swf: no such file", "`ls .` shows what is there"),
    (".", ".: no accounting file", "its files are named after days, such as 20260131"),
    ("log.swf --prices absent_eur_per_mwh.csv", "absent_eur_per_mwh.csv: no such file", "`ls .` "),
    ("log.swf --prices absent.csv", "absent.csv: no such file", "`ls .` "),
    ("log.swf --prices prices.csv", "prices.csv: the unit is not known", "declare it, such as unit=EUR/MWh"),
    (
        "log.swf --prices twice_eur_per_mwh.csv",
        "twice_eur_per_mwh.csv:26: the time 2023-01-02T23:00Z stands twice",
        "times must rise from row to row",
    ),
    (
        "log.swf --prices naive_eur_per_mwh.csv",
        "naive_eur_per_mwh.csv:2: the time '2023-01-02T00:00' has neither Z nor an offset",
        "declare whose clock it is",
    ),
    ("log.swf --prices words_eur_per_mwh.csv", "words_eur_per_mwh.csv:9: ", ""),
    (
        "log.swf --prices short_eur_per_mwh.csv",
        "short_eur_per_mwh.csv, column price: less than a day of prices",
        "at least a whole day",
    ),
    (
        "log.swf --prices c_g_per_kwh.csv",
        "c_g_per_kwh.csv: holds a carbon intensity, no prices",
        "give it with --carbon",
    ),
    (
        "log.swf --prices p_eur_per_mwh.csv --start 2022-01-02",
        "the start 2022-01-02 lies outside the prices",
        "they go ",
    ),
    ("log.swf --start soon", "cannot read the date 'soon'", "write it like 2020-09-21"),
    ("log.swf --prices prices.csv --price-layout unit=EUR", "unknown unit 'EUR'", "did you mean EUR/"),
    ("log.swf --prices p_eur_per_mwh.csv --peak-rule noon", "unknown on-peak rule 'noon'", "known: day-mean"),
    (
        "log.swf --prices p_eur_per_mwh.csv --tariff on=1EUR/MWh,off=1EUR/MWh",
        "--prices and --tariff cannot be combined",
        "give the",
    ),
    (
        "log.swf --tariff on=1EUR/MWh",
        "--tariff: prices.tariff: the tariff 'on=1EUR/MWh' needs both on= and off=",
        "write it like on=90EUR/MWh",
    ),
    (
        "log.swf --tariff README.md",
        "--tariff: prices.tariff: the tariff 'README.md' needs both on= and off=",
        "one price for all hours: on=0.20EUR/kWh",
    ),
    ("log.swf --cluster log.swf", "log.swf: is not TOML: ", "the file is TOML"),
    ("log.swf --decide-by co2", "prices.decide_by weighs CO2, and no carbon intensity is set", "set carbon.source"),
    ("log.swf --decide-by co2e", "--decide-by: prices.decide_by: unknown weighing 'co2e'", "did you mean co2?"),
    ("log.swf --carbon 400", "carbon intensity: '400' has no unit", "write it like 400g/kWh; or name a file"),
    ("log.swf --carbon p_eur_per_mwh.csv", "p_eur_per_mwh.csv: holds EUR/MWh, no carbon", "give prices with --prices"),
    ("log.swf --policy esay", "unknown policy 'esay'", "did you mean easy?"),
    ("log.swf --policy easy,", "--policy: scheduling.policies: ", "write it "),
    ("log.swf --idle-power 75", "--idle-power: power.idle: '75' has no unit", "write it like 250W"),
    ("log.swf --idle-power 75Q", "--idle-power: power.idle: unknown unit 'Q'", "known: GW, MW, W, kW"),
    ("log.swf --power solar", "unknown job power 'solar'", "known: classes, constant"),
    ("log.swf --power file:absent.csv", "absent.csv: no such file", "`ls .` "),
    ("log.swf --window 0", "--window: scheduling.window: 0 is out of range", "the range is 1 to 1000"),
    ("log.swf --window 100 --policy knapsack", "policy 'knapsack': a window of 100 jobs is too large", "a knapsack's"),
    ("log.swf --window few", "Invalid value for '--window'", "offpeak simulate --help shows"),
    ("log.swf --nodes 0", "--nodes: machine.nodes: 0 is out of range", "the range is 1 or more"),
    (
        "log.swf --nodes 3",
        "log: no job can run: 8 jobs: wider than the machine (3)",
        "give the machine's size with --nodes",
    ),
    (
        "log.swf --processors-per-node 9",
        "log: a machine of 8 processors has no node of 9",
        "a smaller --processors-per",
    ),
    ("log.swf --by colour", "--by: unknown group 'colour'", "known: class, day, partition, user"),
    ("log.swf --by class,", "--by: unknown group ''", "known: class, day, partition, user"),
    ("log.swf --config site.toml", "site.toml:3: scheduling.windw is not a setting", "did you mean scheduling.window?"),
    ("log.swf --config absent.toml", "absent.toml: cannot read the settings file", "name one with --config"),
    ("log.swf --colour", "No such option: --colour", "offpeak simulate --help shows"),
    ("", "Missing argument 'LOG'", "offpeak simulate --help shows"),
    ("log.swf --schedule absent/s.csv", "absent/s.csv: cannot be written: No such file", "`mkdir -p absent` makes the"),
    ("log.swf --schedule .", ".: is a directory", "name a file, such as schedule.csv"),
    ("log.swf --schedule log.swf/s.csv", "log.swf/s.csv: cannot be written: Not a directory", "choose a folder that"),
    ("log.swf --schedule /proc/s.csv", "/proc/s.csv: cannot be written: ", "choose a folder that you may write"),
    ("log.swf --schedule /dev/full", "/dev/full: takes one schedule, not 3", "choose one with --policy"),
    (
        "log.swf --policy knapsack-slide --tariff on=9EUR/MWh,off=3EUR/MWh,hours=00:00-24:00",
        "policy 'knapsack-slide' never starts 8 jobs, the first is job 1",
        "it waits for off-peak hours",
    ),
]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a file of each kind."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OFFPEAK_CONFIG", raising=False)
    return tmp_path


def assert_refused(code: int, printed: str, errors: str, message: str, hint: str) -> None:
    assert (code, printed) == (2, "")
    lines = errors.splitlines()
    assert len(lines) == 2, errors
    assert lines[0].startswith(f"offpeak: error: {message}")
    assert lines[1].startswith(f"  hint: {hint}")


@pytest.mark.parametrize(("arguments", "message", "hint"), CASES, ids=[arguments for arguments, _, _ in CASES])
def test_one_line_and_a_hint(
    site: Path, capfd: pytest.CaptureFixture[str], arguments: str, message: str, hint: str
) -> None:
    code = run(["simulate", *arguments.split()])
    assert_refused(code, *capfd.readouterr(), message, hint)
    assert {path.name for path in site.iterdir()} == FILES.keys()


@pytest.mark.parametrize(("arguments", "message", "hint"), [CASES[0], CASES[3], CASES[23], CASES[-5]])
def test_the_installed_command_says_the_same(
    site: Path, offpeak: Offpeak, arguments: str, message: str, hint: str
) -> None:
    done = offpeak("simulate", *arguments.split())
    assert_refused(done.returncode, done.stdout, done.stderr, message, hint)
    assert {path.name for path in site.iterdir()} == FILES.keys()


@pytest.mark.parametrize("piped", [b"", b"\0\1\2", gzip.compress(LOG.encode(), mtime=0)[:40]])
def test_standard_input_is_named(offpeak: Offpeak, piped: bytes) -> None:
    done = offpeak("simulate", "-", stdin=piped)
    assert_refused(done.returncode, done.stdout, done.stderr, "standard input: ", "")


def test_a_disk_that_is_full_in_the_end(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = run(["simulate", "log.swf", "--policy", "easy", "--schedule", "/dev/full"])
    printed, errors = capfd.readouterr()
    assert (code, printed) == (1, "")
    assert errors.splitlines()[0] == "offpeak: error: /dev/full: cannot be written: No space left on device"
    assert {path.name for path in site.iterdir()} == FILES.keys()


def test_a_machine_beyond_the_memory_is_answered_in_a_line(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (site / "huge.swf").write_text(LOG.replace("4 -1 -1 4 7200", f"4 -1 -1 {10**15} 7200"), encoding="utf-8")
    code = run(["simulate", "huge.swf", "--nodes", str(10**15)])
    errors = capfd.readouterr().err
    assert code == 1
    assert errors.startswith("offpeak: error: not enough memory\n  hint: ")
