"""`offpeak forecast` and `offpeak forecast score`: prices, and the wait, run time and power of a job.

`command` parses and scores; `price_answer` and `job_answer` predict and print.
"""
