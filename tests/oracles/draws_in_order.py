"""Permuted blocks and minimisation, one unit at a time, with every count in plain sight."""

import json
from collections import Counter
from fractions import Fraction
from hashlib import blake2b, shake_256


def stratum_of(seed, campaign, values):
    """The keyed hash by which events know a stratum."""
    key = blake2b(f"strata\n{seed}\n{campaign}".encode(), digest_size=32).digest()
    text = json.dumps(values, ensure_ascii=False)
    return blake2b(text.encode(), key=key, digest_size=8).hexdigest()


def block_of(seed, campaign, wave, stratum, number, sizes, K):
    """Deal every action out in turns until the block is full, then shuffle it."""
    text = f"block\n{seed}\n{wave}\n{number}\n{stratum}\n{campaign}"
    raw = shake_256(text.encode()).digest(8 * (1 + K + max(sizes)))
    lots = [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)]
    size = sizes[lots[0] * len(sizes) // 2**64]
    turns = sorted(range(K), key=lambda action: lots[1 + action])
    cards = [turns[place % K] for place in range(size)]
    return [cards[place] for place in sorted(range(size), key=lambda place: lots[1 + K + place])]


def imbalance_after(action, counts):
    """The variances of the actions' counts in each of a unit's values, if it got this action."""
    total = Fraction(0)
    for own in counts:
        new = [count + (a == action) for a, count in enumerate(own)]
        mean = Fraction(sum(new), len(new))
        total += sum((count - mean) ** 2 for count in new) / len(new)
    return total


def coin_of(counts, K, favour):
    """Choose one of the best actions at random; it gets `favour`, the others share the rest."""
    after = [imbalance_after(action, counts) for action in range(K)]
    best = [action for action in range(K) if after[action] == min(after)]
    return [
        sum((favour if a == chosen else (1 - favour) / (K - 1)) / len(best) for chosen in best)
        for a in range(K)
    ]


def fall(chances, number):
    """The action in whose part of [0, 1) a number falls."""
    total = 0.0
    for action, chance in enumerate(chances):
        total += chance
        if number < total:
            return action
    return len(chances) - 1


class Wave:
    """A wave whose units come one after the other."""

    def __init__(self, *, seed, campaign, number, K, sizes=(), favour=None, columns=()):
        self.seed, self.campaign, self.number, self.K = seed, campaign, number, K
        self.sizes, self.favour, self.columns = sizes, favour, columns
        self.queues = {}
        self.opened = Counter()
        self.counts = {}

    def next(self, q, values, randomised, choice):
        """Return the action of a unit with these probabilities, values and random numbers."""
        u = self.K * min(q)
        if randomised >= u and u < 1 - 1e-9:
            return fall([(each - u / self.K) / (1 - u) for each in q], choice)
        return self.minimised(values, choice) if self.favour else self.dealt(values)

    def dealt(self, values):
        """Take the next card of the stratum's block; open a new one if there is none."""
        queue = self.queues.setdefault(tuple(values), [])
        if not queue:
            stratum = stratum_of(self.seed, self.campaign, values)
            number = self.opened[tuple(values)]
            queue += block_of(
                self.seed, self.campaign, self.number, stratum, number, self.sizes, self.K
            )
            self.opened[tuple(values)] += 1
        return queue.pop(0)

    def minimised(self, values, choice):
        """Toss the coin, and count the unit."""
        own = [
            self.counts.setdefault(level, [0] * self.K)
            for level in zip(self.columns, values, strict=True)
        ]
        action = fall(coin_of(own, self.K, self.favour), choice)
        for counts in own:
            counts[action] += 1
        return action
