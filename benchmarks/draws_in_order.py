"""Units that come one at a time: balance and coverage by kind of draw, and the time of a call.

``python -m benchmarks.draws_in_order`` simulates trials of 600 patients in three arms and three
waves of 200, from 20 centres of unequal size; half of the outcomes' variance lies in centres and
sexes. The model knows the sex and one number, or the centre, too. Balance is that of a whole trial,
drawn patient by patient. Findings are the lift of one arm over control, averaged over all patients,
as a campaign reports it; in the adaptive trial, waves 2 and 3 prefer the arm that looks best for
each patient, and 30% of them are randomised.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.allocation import rounded
from seqbatch.campaign import Campaign
from seqbatch.campaign.decide.draws import draws
from seqbatch.campaign.decide.draws_in_order import coin, draw_in_order
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.steps.create import prepare
from seqbatch.core.arrays import Floats, Integers
from seqbatch.inference import Lift, Rows, pool_by_size, summarise
from seqbatch.storage import open_store

WAVES, SIZE, ARMS, CENTRES = 3, 200, 3, 20
FAVOUR, RANDOMISED = 0.8, 0.3
KINDS = ("independent", "balanced, each call alone", "blocks", "minimise")
WEIGHTED = "minimise, weighted by the coin"


def spec(**changes: Any) -> dict[str, Any]:
    """Return a trial with strata."""
    return {
        "name": "trial",
        "seed": 1,
        "unit": "patient",
        "actions": ["control", "low", "high"],
        "control": "control",
        "metrics": {"score": {"kind": "amount"}},
        "objective": {"maximise": "score"},
        "policy": {"kind": "UniformRandom"},
        "grid": {"sizes": [SIZE] * WAVES},
        "strata": ["centre", "sex"],
        **changes,
    }


def situations() -> dict[str, Situation]:
    """Return the states before the first unit of trials in blocks, and with minimisation."""
    return {kind: prepare(spec(draw=kind)).now for kind in ("blocks", "minimise")}


class Patients:
    """Patients, in the order in which they come; no arm has an effect on average.

    Parameters
    ----------
    random
        The random numbers.
    """

    def __init__(self, random: np.random.Generator) -> None:
        count = WAVES * SIZE
        self.centre = random.choice(CENTRES, count, p=random.dirichlet(np.full(CENTRES, 3.0)))
        self.sex = random.integers(0, 2, count)
        self.number = random.standard_normal(count)
        effect = random.normal(scale=np.sqrt(0.35), size=CENTRES)
        level = effect[self.centre] + np.sqrt(0.6) * (self.sex - 0.5)
        noise = random.normal(scale=np.sqrt(0.5), size=count)
        # The arms differ between patients, and not on average.
        self.outcomes = (level + noise)[:, np.newaxis] + np.outer(self.number, [0.0, 0.2, -0.2])
        self.columns = np.column_stack([np.ones(count), self.sex, self.number])
        centres = self.centre[:, np.newaxis] == np.arange(1, CENTRES)
        self.with_centres = np.column_stack([self.columns, centres])

    def strata(self, wave: int) -> list[pa.ChunkedArray]:
        """Return the strata of a wave's patients, as text."""
        rows = slice(wave * SIZE, (wave + 1) * SIZE)
        return [
            pa.chunked_array([pa.array(each[rows]).cast(pa.string())])
            for each in (self.centre, self.sex)
        ]


def drawn(
    kind: str,
    now: dict[str, Situation],
    table: Floats,
    patients: Patients,
    *,
    wave: int,
    key: int,
    anew: bool = False,
) -> Integers:
    """Draw the actions of a wave, patient by patient; `now` goes on from wave to wave, or anew."""
    ids = [f"{wave}-{row}" for row in range(SIZE)]
    own = draws(key, "trial", ids)
    if kind == "balanced, each call alone":
        start = (key * WAVES + wave) * SIZE
        calls = [
            rounded(table[row : row + 1], key=start + row, order=own.lot[:1]) for row in range(SIZE)
        ]
        return np.concatenate([call.actions for call in calls])
    if kind == "independent":
        above: Integers = (own.choice[:, np.newaxis] >= table.cumsum(axis=1)).sum(axis=1)
        return np.minimum(above, ARMS - 1)
    here, kept = now[kind], {} if anew or not wave else now[kind].by_stratum
    seeded = replace(
        here, spec=here.spec.model_copy(update={"seed": key}), wave=wave + 1, by_stratum=kept,
        balanced_since=0 if anew else 1,
    )  # fmt: skip
    found = draw_in_order(seeded, table, own, patients.strata(wave))
    now[kind] = replace(seeded, by_stratum=kept | found.strata)
    return found.actions


def coins(
    actions: Integers, patients: Patients, wave: int, counts: dict[tuple[str, str], list[int]]
) -> Floats:
    """Return each patient's probabilities given the patients before, under minimisation."""
    table = np.empty((SIZE, ARMS))
    values = [column.to_pylist() for column in patients.strata(wave)]
    for row, unit in enumerate(zip(*values, strict=True)):
        own = [counts.setdefault((str(n), v), [0] * ARMS) for n, v in enumerate(unit)]
        table[row] = coin([sum(each) for each in zip(*own, strict=True)], FAVOUR)
        for each in own:
            each[actions[row]] += 1
    return table


# ----------------------------------------------------------------------
# Balance of a trial.


def spreads(actions: Integers, groups: Integers) -> float:
    """Return the largest count less the smallest, on average over groups."""
    counts = np.zeros((groups.max() + 1, ARMS))
    np.add.at(counts, (groups, actions), 1)
    kept = counts[counts.sum(axis=1) > 0]
    return float((kept.max(axis=1) - kept.min(axis=1)).mean())


def balance(trials: int) -> None:
    """Print how far apart the arms' counts are, and the variance of the plain lift."""
    now, table = situations(), np.full((SIZE, ARMS), 1 / ARMS)
    found: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
    for trial in range(trials):
        patients = Patients(np.random.default_rng([21, trial // 20]))
        for kind in KINDS:
            actions = np.concatenate([
                drawn(kind, now, table, patients, wave=wave, key=trial) for wave in range(WAVES)
            ])  # fmt: skip
            got = patients.outcomes[:, 0]
            lift = got[actions == 1].mean() - got[actions == 0].mean()
            within = patients.centre * 2 + patients.sex
            everyone = np.zeros(len(got), dtype=np.int64)
            groups = (everyone, patients.sex, patients.centre, within)
            found[kind].append((*(spreads(actions, each) for each in groups), lift))
    print(f"largest less smallest count of the arms, and the variance of a lift ({trials:,} draws)")
    print(f"{'':26}{'all':>7}{'sex':>7}{'centre':>8}{'both':>7}{'variance':>10}")
    base = _variance(found["independent"])
    for kind, rows in found.items():
        means = np.array(rows)[:, :4].mean(axis=0)
        shown = f"{means[0]:7.1f}{means[1]:7.1f}{means[2]:8.1f}{means[3]:7.1f}"
        print(f"{kind:26}{shown}{_variance(rows) / base:10.2f}")


def _variance(rows: list[tuple[float, ...]]) -> float:
    """Return the variance of the lift over the 20 draws of each trial, on average."""
    lifts = np.array(rows)[:, 4].reshape(-1, 20)
    return float(lifts.var(axis=1, ddof=1).mean())


# ----------------------------------------------------------------------
# Coverage of findings.


def preferred(patients: Patients, actions: Integers, wave: int) -> Floats:
    """Return the probabilities of a wave that prefers what looks best, by least squares."""
    past, here = slice(0, wave * SIZE), slice(wave * SIZE, (wave + 1) * SIZE)
    if not wave:
        return np.full((SIZE, ARMS), 1 / ARMS)
    scores = []
    for arm in range(ARMS):
        rows = np.flatnonzero(actions[past] == arm)
        gram = patients.columns[rows].T @ patients.columns[rows] + np.eye(3)
        moment = patients.columns[rows].T @ patients.outcomes[rows, arm]
        scores.append(patients.columns[here] @ np.linalg.solve(gram, moment))
    best = np.argmax(scores, axis=0)
    table = np.full((SIZE, ARMS), RANDOMISED / ARMS)
    table[np.arange(SIZE), best] += 1 - RANDOMISED
    return table


def findings(
    kind: str, now: dict[str, Situation], trial: int, *, adaptive: bool, centres: bool
) -> Any:
    """Run a trial, and return the interval of the lift of the second arm over control."""
    patients = Patients(np.random.default_rng([22, trial]))
    actions = np.zeros(0, dtype=np.int64)
    counts: dict[tuple[str, str], list[int]] = {}
    waves = []
    for wave in range(WAVES):
        table = preferred(patients, actions, wave if adaptive else 0)
        drawing = "minimise" if kind == WEIGHTED else kind
        own = drawn(drawing, now, table, patients, wave=wave, key=trial, anew=adaptive)
        rows = np.arange(wave * SIZE, (wave + 1) * SIZE)
        logged = coins(own, patients, wave, counts) if kind == WEIGHTED else table
        columns = patients.with_centres if centres else patients.columns
        waves.append(Rows.of(columns[rows], own, logged, patients.outcomes[rows, own]))
        actions = np.concatenate([actions, own])
    return pool_by_size(summarise(waves), Lift(1))


def coverage(trials: int) -> None:
    """Print how often 95% intervals cover, how wide they are, and how far estimates vary."""
    now = situations()
    print(f"95% intervals of a lift ({trials:,} trials)")
    print(f"{'':43}{'cover':>8}{'width':>8}{'error':>8}")
    kinds = [each for each in KINDS if each != "balanced, each call alone"]
    for label, adaptive, centres in (
        ("randomised", False, False),
        ("randomised, centres known", False, True),
        ("adaptive", True, False),
    ):
        for kind in [*kinds, WEIGHTED] if label == "randomised" else kinds:
            rows = []
            for trial in range(trials):
                found = findings(kind, now, trial, adaptive=adaptive, centres=centres)
                rows.append((found.estimate, found.low, found.high))
            estimates, low, high = np.array(rows).T
            covers, width = ((low <= 0) & (high >= 0)).mean(), (high - low).mean()
            named = f"{label}, {kind}"
            print(f"{named:43}{covers:8.3f}{width:8.3f}{estimates.std():8.3f}", flush=True)


# ----------------------------------------------------------------------
# The time of a call.


def speed(units: int, calls: int) -> None:
    """Print how long a call with one unit takes, early in a campaign and after many units."""
    random = np.random.default_rng(23)
    print("one unit a call (ms, median)")
    for kind in ("independent", "blocks", "minimise"):
        strata = [] if kind == "independent" else ["centre", "sex"]
        with tempfile.TemporaryDirectory() as folder:
            store = open_store(Path(folder) / "campaigns.db")
            declared = spec(draw=kind, strata=strata, grid={"sizes": [units + 2 * calls]})
            campaign = Campaign.create(declared, store=store)
            early = _timed(campaign, random, 0, calls)
            campaign.assign(_table(random, calls, units))
            late = _timed(campaign, random, calls + units, calls)
            store.close()
        print(f"{kind:12} first {calls}: {early:6.1f}    after {units:,}: {late:6.1f}")


def _timed(campaign: Campaign, random: np.random.Generator, start: int, calls: int) -> float:
    taken = []
    for number in range(start, start + calls):
        table = _table(random, number, 1)
        begun = time.perf_counter()
        campaign.assign(table)
        taken.append(time.perf_counter() - begun)
    return 1_000 * float(np.median(taken))


def _table(random: np.random.Generator, start: int, count: int) -> pa.Table:
    return pa.table({
        "patient": [f"p{number}" for number in range(start, start + count)],
        "centre": [f"c{number}" for number in random.integers(0, CENTRES, count)],
        "sex": random.choice(["f", "m"], count),
    })  # fmt: skip


def main() -> None:
    """Measure and print; `quick` as an argument makes a tenth of the trials."""
    part = 10 if "quick" in sys.argv[1:] else 1
    balance(2_000 // part)
    print()
    coverage(2_000 // part)
    print()
    speed(10_000 // part, 100)


if __name__ == "__main__":
    main()
