"""Trees of accounts and users, and the factors of fair share in plain Python."""

import numpy as np

from offpeak.sim_backend.engine.priorities import ROOT, ShareTree


def share_tree(*rows):
    """Return the tree of associations (parent, shares, whether it is a user)."""
    parent, shares, is_user = (np.array(column) for column in zip(*rows, strict=True))
    return ShareTree(parent, shares, is_user.astype(bool))


def children(tree, parent):
    return [row for row, its in enumerate(tree.parent.tolist()) if its == parent]


def among_siblings(tree, row, values):
    total = sum(values[sibling] for sibling in children(tree, tree.parent[row]))
    return values[row] / total if total > 0 else 0.0


def used_by(tree, row, usage):
    """Return the usage of a user, or of all users of an account."""
    return usage[row] + sum(used_by(tree, child, usage) for child in reversed(children(tree, row)))


def plain_classic(tree, usage, dampening):
    """Return the factor of each association by the formulas of Slurm's page classic_fair_share."""
    shares = [float(share) for share in tree.shares]
    total = sum(used_by(tree, row, usage) for row in children(tree, ROOT))

    def effective(row):
        own = used_by(tree, row, usage) / total if total > 0 else 0.0
        parent = int(tree.parent[row])
        return own if parent == ROOT else own + (effective(parent) - own) * among_siblings(tree, row, shares)

    def normalized(row):
        return among_siblings(tree, row, shares) * (
            1 if tree.parent[row] == ROOT else normalized(int(tree.parent[row]))
        )

    rows = range(len(tree.parent))
    return [2 ** -(effective(row) / normalized(row) / dampening) if normalized(row) > 0 else 0.0 for row in rows]


def plain_fair_tree(tree, usage):
    """Return the factor of each association by the algorithm of Slurm's page fair_tree."""
    rows = range(len(tree.parent))
    used = [used_by(tree, row, usage) for row in rows]
    level = [np.float64(0)] * len(tree.parent)
    for row in rows:
        share, use = among_siblings(tree, row, tree.shares), among_siblings(tree, row, used)
        with np.errstate(over="ignore"):
            level[row] = np.float64(share) / use if use > 0 else np.float64(np.inf if share > 0 else 0)
    users = left = rank = int(tree.is_user.sum())
    factors = [0.0] * len(tree.parent)

    def visit(siblings, is_tied):
        nonlocal left, rank
        siblings = sorted(siblings, key=lambda row: (-level[row], not tree.is_user[row]))
        at = 0
        while at < len(siblings):
            row = siblings[at]
            tied = is_tied if at == 0 else level[row] == level[siblings[at - 1]]
            if tree.is_user[row]:
                rank = rank if tied else left
                factors[row] = rank / users
                left -= 1
                at += 1
                continue
            equal = [other for other in siblings[at:] if level[other] == level[row]]
            visit([child for account in equal for child in children(tree, account)], tied)
            at += len(equal)

    visit(children(tree, ROOT), False)
    return factors
