"""Many clusters as one: where does a job run best, by wait, energy, CO2 and price? Pure decisions with reasons.

A site's agent publishes a site_report.py; live_cycle.choose_together, the broker's entry, makes a cycle.py of the
reports, the jobs.py and the sites.py (read by sites_file.py). placement_costs.py predicts time and cost of each job at
each site, policies.py names the policies that decide (the flow policies are in metaschedule.py and exchange.py), and
live_cycle.py puts the answer into words. The simulated grid passes its own cycles to the same policies.
"""
