"""The soak of kills: the agent of a real Slurm is killed again and again, wherever it stands, while jobs come and go.

The witnesses are the jobs themselves, the nodes' power, the ledger and Slurm's queue.
"""
