"""Nodes on the command line: `offpeak nodes` and `offpeak cap`.

`command.py` declares the commands and stays light. `nodes_answer.py` prints all nodes, `node_answer.py` shows,
holds and releases one node, and wakes it or sends it to sleep, through the agent or through the door.
"""
