"""The adapter of Slurm: what slurmctld shows, and the changes that it is ordered to make.

scheduler.py is the entry and implements plugin.scheduler.port. readers.py reads the jobs, nodes and reservations by
Slurm's commands, slurmrestd or pyslurm; jobs.py, nodes.py and fields.py parse the answers. changes.py orders changes
by scontrol, and commands.py runs all programs. rights.py and traits.py say what slurmctld allows and is set to.
accounting.py reads sacct, and batch.py has the commands by which the broker submits jobs.
"""
