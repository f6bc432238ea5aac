"""The scheduler as the agent sees it: one port for all schedulers, and the values that pass through it.

port.py is the entry: an adapter (offpeak.plugin.slurm, offpeak.plugin.pbs) implements Scheduler, returns job.py's jobs
and node.py's nodes in a SchedulerView, and takes the few changes. registry.py finds the scheduler of the site. batch.py
is the port of the commands by which the broker submits, follows and cancels jobs.
"""
