"""Many clusters on the command line: `offpeak choose`, `submit`, `snapshot` and `broker`.

`command.py` declares the commands and stays light; `job.py` holds the job that they hand over. `choose_answer.py`
asks the running broker, and `own_choice.py` chooses where no broker runs (it imports numpy). `submit_answer.py`
submits and follows a job. `snapshot_answer.py` prints what the agent of this site reports to brokers.
"""
