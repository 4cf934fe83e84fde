"""Oracle of the tree: every tree of depth two on the bins, unit by unit (section 7 of the page).

Bins and scores are given. A node is a leaf, or a condition with two nodes; a condition on a number
is "bin at most c", one on a category is "is this level" or "is one of the first levels".
"""


def conditions(bins, category):
    """Return the ways to divide a feature's bins, as sets of bins on one side."""
    prefixes = [frozenset(range(c + 1)) for c in range(bins - 1)]
    return prefixes + ([frozenset([level]) for level in range(bins)] if category else [])


def best_leaf(rows, scores, among, least):
    """Return the largest sum of one action's scores over these units; None if they are too few."""
    if len(rows) < least:
        return None
    return max(sum(scores[i][a] for i in rows) for a in among)


def best_value(codes, scores, features, among, least, rows=None, depth=2):
    """Return the largest sum of scores of any tree of this depth; None if units are too few.

    `codes` are the bins of each unit, `features` the number of bins of each feature and whether it
    is a category.
    """
    rows = list(range(len(codes))) if rows is None else rows
    best = best_leaf(rows, scores, among, least)
    for f, (bins, category) in enumerate(features if depth else []):
        for side in conditions(bins, category):
            parts = (
                [i for i in rows if codes[i][f] in side],
                [i for i in rows if codes[i][f] not in side],
            )
            ends = [
                best_value(codes, scores, features, among, least, part, depth - 1) for part in parts
            ]
            if None not in ends and (best is None or sum(ends) > best):
                best = sum(ends)
    return best


def value(actions, scores):
    """Return the sum of the scores of each unit's action."""
    return sum(scores[i][a] for i, a in enumerate(actions))
