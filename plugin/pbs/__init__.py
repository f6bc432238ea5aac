"""The adapter of OpenPBS and of Torque 4.2 to 6.1: one scheduler in two dialects.

scheduler.py implements offpeak.plugin.scheduler.port for both, by a Dialect: how the commands are called and how their
output is parsed. openpbs.py (with openpbs_server.py, the server's configuration) and torque.py are the dialects.
jobs.py reads jobs and checks that the server shows all of them, demand.py finds the jobs that need a sleeping node,
commands.py runs and parses commands. accounting.py reads the server's daily files, and batch.py submits the broker's
jobs.
"""
