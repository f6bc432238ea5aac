"""NorduGrid with its price zones of 2014: fifty systems and a workload that are drawn, as neither is published."""
