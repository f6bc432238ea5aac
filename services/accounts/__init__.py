"""The accounts of energy and money: readings of all meters, energy and cost of jobs, and savings of sleeping nodes.

`metering` turns readings into rows of the ledger. `ended_jobs` finds the jobs that ended, `job_use` computes their
energy by their shares of the nodes, and `booking` writes them; `job_draws` and `job_forecasts` give the expected
power and run time. `savings` compares rests of nodes with nodes that are on; `lever_savings` replays what the levers
saved, or would have saved. `month_account` and `counterfactual` read it all back for the report. `evidence` writes the
bundle of a month for auditors, and `examination` finds what one proves.
"""
