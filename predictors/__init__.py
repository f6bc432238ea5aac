"""Predictions and feeds: prices, queue waits, run times and job power, and the public data that they learn from.

`port` is the port of every predictor: learn an outcome, predict a question, with quantiles. `job_power`, `run_times`,
`waits` and `prices` implement it, `job_history` and `trees` are shared, `scores` measures them. `choice` is the rule by
which the agent uses one of them. `feeds` reads prices, carbon intensity and temperature; `site_sources` and
`price_forecast` turn a site's settings into the prices that the agent uses.
"""
