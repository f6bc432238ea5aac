"""Numbers for job ids such as 31.head and 32[1].head, each used once, and what the scheduler calls the others."""

from collections import Counter

LONGEST = 15  # digits of a number that an array of integers can hold


def numbered(jobs: list[bytes]) -> tuple[list[int], dict[int, str]]:
    """Return a number for each job and, by number, the ids that are not just that number.

    The first 31.head is 31. Members of arrays, later runs and jobs of the same number on another server get numbers
    that no job has. The server is left out of an id where it is the one that most jobs belong to.
    """
    servers = Counter(job.partition(b".")[2] for job in jobs)
    home = max(servers, key=servers.__getitem__, default=b"")
    own = [_own_number(job.partition(b".")[0]) for job in jobs]
    unused = 1 + max(own, default=0)
    numbers: list[int] = []
    names: dict[int, str] = {}
    taken = {-1}
    for job, number in zip(jobs, own, strict=True):
        short, _, server = job.partition(b".")
        has_another = number in taken
        taken.add(number)
        if has_another:
            number, unused = unused, unused + 1
        if has_another or server != home:
            names[number] = (short if server == home else job).decode(errors="replace")
        numbers.append(number)
    return numbers, names


def _own_number(short: bytes) -> int:
    return int(short) if short.isdigit() and len(short) <= LONGEST else -1
