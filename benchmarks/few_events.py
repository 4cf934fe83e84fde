"""How often stopping rules err while there are few events, and what they find: docs/few-events.md.

`python -m benchmarks.few_events` takes some minutes; `--quick` takes seconds and writes nothing.
"""

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.few_events_campaign import (
    AMOUNTS,
    HEAVY_AMOUNTS,
    LOSSES,
    MIXED,
    PURCHASES,
    Setting,
    Verdicts,
    verdicts,
)
from benchmarks.few_events_page import page
from benchmarks.progress import say

PAGE = Path("docs/few-events.md")
SEED = 20
#: Campaigns of each setting in which nothing differs, and of each other setting.
TRIALS, OTHER_TRIALS = 8_000, 2_000
#: In a quick run: campaigns, and which settings.
QUICK_TRIALS, QUICK_STEP = 100, 8

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
#: Actions that cost the same, with yes/no outcomes.
FREE = (0.0, 0.0)
YES_NO = (
    *(Setting(costs=FREE, rate=rate, events=n) for rate, n in product((0.01, 0.1), (4, 10, 30))),
    Setting(costs=FREE, rate=0.02, events=5, waves=5),
    Setting(costs=(0.0,) * 3, rate=0.05, events=8),
    Setting(costs=(0.0,) * 4, rate=0.02, events=8, waves=4),
    Setting(costs=(0.0,) * 3, rate=0.02, events=6, randomised=0.1),
    Setting(costs=(0.0,) * 4, rate=0.1, events=20, waves=4, randomised=0.2),
    Setting(costs=FREE, rate=0.05, events=10, waves=4, growth=3, randomised=0.1),
    Setting(costs=FREE, rate=0.05, events=30, waves=5, randomised=0.1),
    Setting(costs=FREE, rate=0.97, events=320, randomised=0.2),
    *(Setting(costs=FREE, rate=0.5, events=n, waves=5) for n in (1, 2.5, 5)),
    Setting(costs=FREE, rate=0.25, events=2.5, waves=5),
    Setting(costs=FREE, rate=0.8, events=8, waves=5),
    Setting(costs=FREE, rate=0.4, events=8, waves=5, randomised=0.3),
)
#: Amounts and numbers of purchases, and outcomes of which less is better.
SIZES = (
    *(Setting(costs=FREE, rate=0.05, events=n, worth=AMOUNTS) for n in (10, 25)),
    Setting(costs=(0.0,) * 3, rate=0.05, events=20, worth=AMOUNTS, randomised=0.2),
    *(Setting(costs=FREE, rate=0.05, events=n, worth=HEAVY_AMOUNTS) for n in (10, 25, 100)),
    Setting(rate=0.02, events=60, worth=HEAVY_AMOUNTS, randomised=0.1),
    Setting(rate=0.0, events=60, worth=HEAVY_AMOUNTS),
    Setting(costs=FREE, rate=0.05, events=60, worth=HEAVY_AMOUNTS, waves=4, growth=3,
            randomised=0.1),
    *(Setting(costs=FREE, rate=0.05, events=n, worth=PURCHASES) for n in (5, 20)),
    Setting(rate=0.0, events=6, worth=PURCHASES),
    Setting(rate=0.02, direction="min"),
    Setting(rate=0.0, direction="min", events=20, randomised=0.1),
    Setting(costs=FREE, rate=0.05, events=20, worth=AMOUNTS, direction="min", randomised=0.2),
)  # fmt: skip
#: Waves so small that most of them have one or two units of the action that looks worse.
TINY = tuple(
    Setting(costs=FREE, rate=rate, events=units * rate / 2, waves=waves, randomised=share)
    for units, rate, waves, share in (
        (10, 0.5, 5, 0.3), (10, 0.35, 8, 0.3), (20, 0.35, 8, 0.1), (40, 0.35, 8, 0.1),
        (80, 0.35, 8, 0.1),
    )
)  # fmt: skip
#: Settings for which the price of the rule is shown, at each of these multiples.
PAYS = (0.0, 2.0, 3.0)
PRICED = (
    *(Setting(events=events, waves=5) for events in (4, 10, 20)),
    Setting(rate=0.0, waves=5),
    Setting(costs=(0.0, 0.01, 0.01), waves=5),
    Setting(waves=5, randomised=0.1),
    Setting(events=4, waves=4, growth=3, randomised=0.1),
    Setting(worth=MIXED, events=20),
    Setting(worth=MIXED, rate=0.0, events=40),
    Setting(costs=FREE, rate=0.01, events=10),
    Setting(costs=FREE, rate=0.1, events=10),
    Setting(costs=FREE, rate=0.02, events=5, waves=5),
    Setting(costs=(0.0,) * 3, rate=0.05, events=8),
    Setting(costs=FREE, rate=0.05, events=25, worth=AMOUNTS),
    Setting(costs=FREE, rate=0.05, events=100, worth=HEAVY_AMOUNTS),
)
ERRORS = RANDOM + ADAPTIVE + YES_NO + SIZES + TINY
OTHERS = tuple(replace(one, pays=pays) for one, pays in product(PRICED, PAYS))


def measure(settings: tuple[Setting, ...], trials: int, *, stream: int) -> dict[Setting, Verdicts]:
    """Run all campaigns of some settings; the same numbers give the same campaigns."""
    found = {}
    for place, setting in enumerate(settings):
        random = np.random.default_rng([SEED, stream, place])
        found[setting] = verdicts(setting, random, trials=trials)
    say(f"{len(settings) * trials:,} campaigns")
    return found


def main() -> None:
    """Run everything, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few campaigns; print the page only")
    quick = parser.parse_args().quick
    if quick:
        some = ERRORS[::QUICK_STEP], OTHERS[::QUICK_STEP]
        print(page(*(measure(one, QUICK_TRIALS, stream=n) for n, one in enumerate(some))))
        return
    text = page(measure(ERRORS, TRIALS, stream=0), measure(OTHERS, OTHER_TRIALS, stream=1))
    print(text)
    PAGE.write_text(text, encoding="utf-8")
    say(f"Written to {PAGE}")


if __name__ == "__main__":
    main()
