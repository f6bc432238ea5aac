"""The adapter of OpenPBS and of Torque 4.2 to 6.1: two dialects of one scheduler.

openpbs_scheduler.py and torque_scheduler.py are the entries and implement plugin.scheduler.port. Each parses and
changes jobs and nodes in its own dialect (openpbs_jobs.py, torque_nodes.py and so on); openpbs_server.py says what an
OpenPBS server is set to. Both share commands.py, fields.py, jobs.py, resource_request.py, node_marks.py and demand.py,
which finds the jobs that need a sleeping node. accounting.py reads the daily files of the server, and batch.py has the
commands by which the broker submits jobs.
"""
