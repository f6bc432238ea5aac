"""The site's contract: what the configuration of its scheduler promises, and the rules that it must keep.

rules.py has the values: a rule, a finding, and what offpeak knows of the site. slurm.py and pbs.py each parse the
configuration of a scheduler into a contract, with its list of rules. The adapters read the text and pass the contract
on in the traits of the scheduler. `init`, `check`, the agent and its reports ask the contract, and print its findings.
"""
