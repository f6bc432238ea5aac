"""Several clusters together: one engine each, local users, and a broker that chooses a site for each grid job.

`grid` describes the sites, their jobs and electricity; `broker.run_grid` is the entry. It advances all `sites`, shows
the pending jobs to a policy of offpeak.plugin.federation with waits and prices, and submits each job to the chosen
site's engine. `sites.outcome_of` turns the schedules into energy, money, CO2 and fairness.
"""
