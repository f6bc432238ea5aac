"""`offpeak forecast` and `offpeak score`: prices, and the wait, run time and power of a job.

`command` parses; `price_answer`, `job_answer` and `score_answer` predict and print.
"""
