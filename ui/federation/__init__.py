"""Many clusters on the command line: `offpeak submit`, `snapshot` and `broker`.

`command.py` declares the commands and imports only light modules. `choose_answer.py` reads the job's file and queries
the running broker. `without_daemon.py` chooses if no broker runs, and submits and follows a job; it imports numpy.
"""
