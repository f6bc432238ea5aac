"""`offpeak prices`, `forecast` and `forecast score`: prices, and the wait, run time and power of a job.

`command` parses and scores; `known_prices` reads the feed and prints, `price_answer` and `job_answer` predict and
print.
"""
