"""Few jobs on a real slurmctld: prices leave the rights of QOS and fair share alone."""

from needed_programs import need
from slurm_fixtures import ACCOUNTING_PACKAGES, ACCOUNTING_PROGRAMS, PACKAGES, PROGRAMS

from benchmarks.queue_rights import measure


def test_no_job_is_behind_one_of_a_lower_qos_or_beyond_the_band() -> None:
    need([*PROGRAMS, *ACCOUNTING_PROGRAMS], packages=f"{PACKAGES} {ACCOUNTING_PACKAGES}")
    result = measure(jobs=40, changes=2, extras=((), (), ("--array=1-3",), ("--hold",)))
    assert result.exchanged > 0
    assert (result.behind_lower_qos, result.beyond_band) == (0, 0)
