"""The adapter of Slurm: what slurmctld shows, and the changes that it is ordered to make.

scheduler.py is the entry, implements offpeak.plugin.scheduler.port, and reads the jobs, nodes and reservations by
Slurm's commands, slurmrestd or pyslurm; jobs.py and nodes.py parse the answers. changes.py orders changes by scontrol,
and commands.py runs all programs. configuration.py reads the settings of slurm.conf and the rights of this user.
accounting.py reads sacct and the priorities, and batch.py has the commands by which the broker submits jobs.
"""
