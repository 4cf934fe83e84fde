"""Dependent rounding, literally: cycles in a network, after Gandhi et al. (2006), in fractions.

Edges are added one at a time; the only cycle that one can close is found by looking everywhere, and
broken by a choice that the caller makes, or by both: then the whole law of the actions comes out.
"""

from fractions import Fraction

ONE = 1 << 52
MASK = (1 << 64) - 1


def edges(weights, lots, strata):
    """Yield (tail, head, amount) of every fractional edge, each after all that flow into it."""

    def inside(units, prefix):
        if len(prefix) == len(strata[0]):
            for unit in sorted(units, key=lambda i: lots[i]):
                for action, amount in enumerate(weights[unit]):
                    if 0 < amount < ONE:
                        yield ("unit", unit), (prefix, action), amount
        else:
            for value in sorted({strata[unit][len(prefix)] for unit in units}):
                members = [unit for unit in units if strata[unit][len(prefix)] == value]
                yield from inside(members, (*prefix, value))
        for action in range(len(weights[0])):
            amount = sum(weights[unit][action] for unit in units) % ONE
            if amount:
                above = (prefix[:-1], action) if prefix else "sink"
                yield (prefix, action), above, amount

    yield from inside(range(len(weights)), ())


def way(flow, start, goal, seen=()):
    """Return the edges between two nodes of a forest, with whether each is passed forwards."""
    if start == goal:
        return []
    for tail, head in flow:
        for here, there, forwards in ((tail, head, True), (head, tail, False)):
            if here == start and (tail, head) not in seen:
                rest = way(flow, there, goal, (*seen, (tail, head)))
                if rest is not None:
                    return [((tail, head), forwards), *rest]
    return None


def rounding(weights, lots, strata, choose):
    """Return the action of each unit; `choose(up, down)` says whether to go up."""
    actions = [row.index(ONE) if ONE in row else None for row in weights]
    flow = {}
    for tail, head, amount in edges(weights, lots, strata):
        cycle = way(flow, head, tail)
        flow[tail, head] = amount
        if cycle is None:
            continue
        cycle = [((tail, head), True), *cycle]
        up = min(ONE - flow[edge] if forwards else flow[edge] for edge, forwards in cycle)
        down = min(flow[edge] if forwards else ONE - flow[edge] for edge, forwards in cycle)
        step = up if choose(up, down) else -down
        for edge, forwards in cycle:
            flow[edge] += step if forwards else -step
            assert 0 <= flow[edge] <= ONE
            if flow[edge] == ONE and edge[0][0] == "unit":
                actions[edge[0][1]] = edge[1][1]
            if flow[edge] in (0, ONE):
                del flow[edge]
    assert not flow
    assert None not in actions
    return tuple(actions)


def law(weights, lots, strata):
    """Return the probability of every outcome, exactly, by taking both branches of each choice."""
    found = {}
    script = []
    while script is not None:
        branch = Branch(script)
        actions = rounding(weights, lots, strata, branch)
        found[actions] = found.get(actions, Fraction(0)) + branch.chance
        script = branch.following()
    return found


class Branch:
    """One way through all choices: as the script says, and upwards where it has ended."""

    def __init__(self, script):
        self.script, self.taken, self.chance = script, [], Fraction(1)

    def __call__(self, up, down):
        place = len(self.taken)
        upwards = self.script[place] if place < len(self.script) else True
        self.taken.append(upwards)
        self.chance *= Fraction(down if upwards else up, up + down)
        return upwards

    def following(self):
        """Return the script of the next way, or None after the last."""
        while self.taken and not self.taken[-1]:
            self.taken.pop()
        return [*self.taken[:-1], False] if self.taken else None


def chooser(key):
    """Return the choices that two words of a key make: splitmix64, counted, without bias."""
    counter = 0

    def mixed(value):
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
        return value ^ (value >> 31)

    def choose(up, down):
        nonlocal counter
        while True:
            counter += 1
            drawn = mixed(mixed((key[0] + counter * 0x9E3779B97F4A7C15) & MASK) ^ key[1])
            if drawn < 2**64 - 2**64 % (up + down):
                return drawn % (up + down) < down

    return choose
