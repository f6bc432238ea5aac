"""Many clusters on the command line: `offpeak choose`, `submit`, `snapshot` and `broker`.

`command.py` declares the commands and imports only light modules; `job.py` reads the job's file. `choose_answer.py`
queries the running broker, and `own_choice.py` chooses if no broker runs (it imports numpy). `submit_answer.py`
submits and follows a job.
"""
