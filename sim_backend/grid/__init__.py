"""Several clusters together: one engine each, local users, and a broker that chooses a site for each grid job.

`grid` describes the sites and their jobs; `broker.run_grid` is the entry. It advances all `sites`, shows the pending
jobs to a policy of plugin.federation with `waits` and `electricity`, and submits each job to the chosen site's engine.
`outcome` turns the schedules into energy, money, CO2 and fairness.
"""
