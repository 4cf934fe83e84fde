"""How often stopping rules err while there are few events: docs/few-events.md.

`python -m benchmarks.few_events` takes some minutes.
"""

import os
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.few_events_campaign import GUARDS, LOSSES, MIXED, RULES, Setting, stops
from benchmarks.few_events_page import page
from benchmarks.progress import say
from seqbatch.core.arrays import Integers
from seqbatch.engine import as_completed, open_engine

PAGE = Path("docs/few-events.md")
SEED = 20
#: Campaigns of each setting at break-even, of each other setting, and those of one piece of work.
TRIALS, LOST_TRIALS, PIECE = 3_000, 1_000, 250

RATES = ((0.001, 0.001), (0.01, 0.01), (0.09, 0.01), (0.0, 0.01))
#: Every unit at random: rates and costs, numbers of actions and waves, kinds of events.
RANDOM = (
    *(
        Setting(rate=rate, costs=(0.0, cost), events=events)
        for (rate, cost), events in product(RATES, (4, 10, 20))
    ),
    Setting(rate=0.0, costs=(0.0, 0.001), waves=5),
    Setting(costs=(0.0, 0.01, 0.01), waves=4),
    Setting(costs=(0.0, 0.01, 0.01), rate=0.0, waves=4),
    Setting(costs=(0.0, 0.01, 0.02, 0.03), waves=5),
    Setting(costs=(0.01, 0.0)),
    Setting(worth=LOSSES),
    *(Setting(worth=MIXED, events=events) for events in (4, 20)),
    *(Setting(worth=MIXED, rate=0.0, events=events) for events in (4, 10, 20, 40)),
)
#: Most units get what looks best, which may leave an action with few units and fewer events.
ADAPTIVE = (
    *(Setting(rate=0.0025, events=1, waves=5, randomised=share) for share in (0.05, 0.1, 0.3)),
    Setting(events=1, waves=4, growth=3, randomised=0.05),
    Setting(rate=0.0025, events=7, waves=4, growth=3, randomised=0.05),
    *(Setting(events=events, randomised=0.1) for events in (10, 20)),
    *(Setting(rate=0.0, events=n, waves=4, growth=3, randomised=0.05) for n in (3, 7)),
    Setting(rate=0.0, events=20, randomised=0.1),
    Setting(costs=(0.0, 0.01, 0.01), rate=0.0025, events=1, waves=5, randomised=0.1),
    Setting(costs=(0.0, 0.01, 0.02, 0.03), rate=0.0025, events=7, waves=4, randomised=0.1),
    Setting(costs=(0.01, 0.0), rate=0.0025, events=1, waves=5, randomised=0.05),
    Setting(costs=(0.01, 0.0, 0.0, 0.0), rate=0.0, waves=5, randomised=0.3),
    Setting(worth=LOSSES, rate=0.0025, events=1, waves=5, randomised=0.05),
    *(Setting(worth=MIXED, events=events, randomised=0.1) for events in (1, 10)),
    *(Setting(worth=MIXED, rate=0.0, events=n, randomised=0.1) for n in (4, 10, 20)),
)
HARMFUL = (
    *(Setting(events=events, waves=5, pays=0.0) for events in (4, 10, 20)),
    *(Setting(events=events, waves=5, pays=0.5) for events in (10, 40)),
    Setting(rate=0.0, waves=5, pays=0.5),
    Setting(costs=(0.0, 0.01, 0.01), waves=5, pays=0.0),
    Setting(waves=5, pays=0.0, randomised=0.1),
    Setting(events=4, waves=4, growth=3, pays=0.0, randomised=0.1),
)


def measured(piece: tuple[Setting, int, int]) -> Integers:
    """Run some campaigns of a setting; the same numbers give the same campaigns."""
    setting, place, number = piece
    random = np.random.default_rng([SEED, place, number])
    return stops(setting, random, trials=PIECE)


def measure(settings: tuple[Setting, ...], trials: int) -> dict[Setting, Integers]:
    """Run all campaigns of some settings, on every core."""
    each = trials // PIECE
    pieces = [(one, place, n) for place, one in enumerate(settings) for n in range(each)]
    found: dict[int, Integers] = {}
    with open_engine("local", jobs=os.cpu_count() or 1) as engine:
        for number, made in as_completed(engine, measured, pieces):
            found[number] = made
            if len(found) % each == 0:
                say(f"{len(found) * PIECE:,} of {len(pieces) * PIECE:,} campaigns")
    return {
        one: np.concatenate([found[place * each + n] for n in range(each)])
        for place, one in enumerate(settings)
    }


def main() -> None:
    """Run everything, and write the page."""
    say(f"{len(RANDOM) + len(ADAPTIVE)} settings at break-even, {len(HARMFUL)} others; "
        f"rules {', '.join(RULES)}; guards {', '.join(map(str, GUARDS))}")  # fmt: skip
    text = page(measure(RANDOM + ADAPTIVE, TRIALS), measure(HARMFUL, LOST_TRIALS))
    print(text)
    PAGE.write_text(text, encoding="utf-8")
    say(f"Written to {PAGE}")


if __name__ == "__main__":
    main()
