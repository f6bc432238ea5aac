"""The custom resources by which jobs and nodes carry what we say of them; made by the installer."""

PRIO = "offpeak_prio"
"""Of a job: what is added to the site's order. Float; users may not set it."""
BEGIN = "offpeak_begin"
"""Of a job: the Unix second before which the runjob hook does not let it start, 0 for none. Users may not set it."""
NODE = "offpeak_node"
"""Of a node: our mark. A text; the server itself overwrites a node's comment when the node goes down."""
OURS = frozenset({PRIO, BEGIN, NODE})

SCALE = 1000
"""So many of our whole numbers are 1 in the site's formula, whose values have fractions."""
