"""A real Slurm of this machine whose nodes have simulated power, for `make demo-slurm`, the tests and the benchmarks.

The entry is `cluster.powered_cluster(PoweredPlan(...))`: it starts munged, slurmctld, one slurmd a node (`servers`) and
one ipmi_sim a node as its BMC (`ipmi_sim`); `meters` adds metered outlets and `agent` an offpeak agent, a subprocess.
Orders flow from the agent to a BMC, which writes them to a file; the `node` follows it, starts or kills its slurmd, and
shows its power and its watts to BMC and outlet; `cluster` also submits jobs and reads what Slurm reports.
"""
