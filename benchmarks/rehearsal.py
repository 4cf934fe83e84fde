"""Rehearsals beside campaigns that separate, plain code runs through a real store."""

import argparse
import hashlib
import json
import resource
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import comb, hypot, sqrt
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from scipy.special import ndtri

from seqbatch.campaign import Campaign, rehearse
from seqbatch.campaign.views.rehearsal import NOMINAL, RULE
from seqbatch.inference.estimates import _rare_shape
from seqbatch.storage import open_store

PAGE, REHEARSED, REAL = Path("docs/rehearsal.md"), 1_000, 1_000
#: Where finished campaigns are kept.
KEEP = Path("out/rehearsal")
#: How many real campaigns share a store.
PART = 10
#: The 95% quantile of chi-square with one degree of freedom.
QUANTILE = 3.841459

# ----------------------------------------------------------------------
# The specs, and what is true.


@dataclass(frozen=True)
class Setting:
    """A spec, and the means of its metrics by action, with their name."""

    title: str
    spec: dict[str, Any]
    truth: dict[str, Any]
    rates: dict[str, dict[str, float]]

    @property
    def control(self) -> str:
        """The control."""
        return str(self.spec["control"])

    @property
    def costs(self) -> dict[str, float]:
        """The cost of each action."""
        own = [one if isinstance(one, dict) else {"name": one} for one in self.spec["actions"]]
        return {one["name"]: one.get("cost", 0.0) for one in own}

    @property
    def metric(self) -> str:
        """The objective's metric."""
        return str(self.spec["objective"]["maximise"])

    def null(self) -> dict[str, dict[str, float]]:
        """Return the means where no action differs from the control."""
        return {metric: dict.fromkeys(own, own[self.control]) for metric, own in self.rates.items()}


FEATURES = {f"x{number}": "learn" for number in range(1, 9)}
MAIL = Setting(
    "An e-mail with rare sales",
    {
        "name": "mail", "seed": 1, "unit": "customer", "control": "none", "randomised": 0.2,
        "actions": ["none", "mail", "voucher"], "grid": {"sizes": [1_000, 1_500, 2_000]},
        "metrics": {
            "sale": {"kind": "yes/no", "absent": 0},
            "left": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most_control_plus": 0.005}},
        },
        "objective": {"maximise": "sale"},
        "features": {"numeric": FEATURES, "categorical": {"region": ["north", "south", "west"]}},
    },
    {"name": "mail sells", "none": 0.01, "mail": 0.03,
     "metrics": {"left": {"none": 0.01, "voucher": 0.03}}},
    {"sale": {"none": 0.01, "mail": 0.03, "voucher": 0.01},
     "left": {"none": 0.01, "mail": 0.01, "voucher": 0.03}},
)  # fmt: skip
TRIAL = Setting(
    "A trial in three arms with O'Brien-Fleming looks",
    {
        "name": "trial", "seed": 1, "unit": "patient", "control": "placebo",
        "actions": ["placebo", "low", "high"], "policy": {"kind": "UniformRandom"},
        "grid": {"sizes": [150, 150, 150, 150]}, "metrics": {"healed": {"kind": "yes/no"}},
        "objective": {"maximise": "healed"}, "stopping": {"rule": "obrien-fleming"},
        "features": {"numeric": {"age": "learn"}},
    },
    {"name": "the high dose heals", "placebo": 0.3, "high": 0.5},
    {"healed": {"placebo": 0.3, "low": 0.3, "high": 0.5}},
)  # fmt: skip
LIMITED = Setting(
    "Calls with a capacity, and a budget",
    {
        "name": "calls", "seed": 1, "unit": "customer", "control": "none", "randomised": 0.2,
        "actions": ["none", {"name": "mail", "cost": 0.5}, {"name": "call", "cost": 4.0}],
        "currency": "EUR", "grid": {"sizes": [400, 400, 400]},
        "capacity": {"call": 60}, "budget": {"each_wave": 300.0},
        "metrics": {"sale": {"kind": "yes/no", "absent": 0}}, "objective": {"maximise": "sale"},
        "features": {"numeric": {"age": "learn"}, "categorical": {"region": ["north", "south"]}},
    },
    {"name": "calls sell", "none": 0.1, "mail": 0.12, "call": 0.3},
    {"sale": {"none": 0.1, "mail": 0.12, "call": 0.3}},
)  # fmt: skip
MASKED = Setting(
    "A masked trial whose key holder takes the looks",
    {
        "name": "masked", "seed": 1, "unit": "patient", "control": "placebo", "masked": True,
        "interim": "committee", "actions": ["placebo", "drug"],
        "policy": {"kind": "UniformRandom"}, "grid": {"sizes": [100, 100, 100]},
        "metrics": {"healed": {"kind": "yes/no"}}, "objective": {"maximise": "healed"},
        "stopping": {"rule": "pocock", "looks": "key holder"},
        "features": {"numeric": {"age": "learn"}},
    },
    {"name": "the drug heals", "placebo": 0.3, "drug": 0.45},
    {"healed": {"placebo": 0.3, "drug": 0.45}},
)  # fmt: skip
SETTINGS = (MAIL, TRIAL, LIMITED, MASKED)

# ----------------------------------------------------------------------
# Real campaigns, by plain code: units and outcomes as frames, a store in a file.


def real(
    setting: Setting, rates: Mapping[str, Mapping[str, float]], keep: Path, seeds: range
) -> list[Any]:
    """Run campaigns in an SQLite store, unless a file has them; return what each of them found."""
    file = keep / f"{seeds.start}-{seeds.stop}.json"
    if file.exists():
        return list(json.loads(file.read_text(encoding="utf-8")))
    with TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "campaigns.db")
        found = [_real(setting, rates, store, Path(folder), seed) for seed in seeds]
        store.close()
    keep.mkdir(parents=True, exist_ok=True)
    written = file.with_suffix(".part")
    written.write_text(json.dumps(found), encoding="utf-8")
    written.replace(file)
    return found


def _real(
    setting: Setting, rates: Mapping[str, Mapping[str, float]], store: Any, folder: Path, seed: int
) -> dict[str, Any]:
    random = np.random.default_rng([77, seed])
    spec = {**setting.spec, "name": f"c{seed}", "seed": int(random.integers(2**40))}
    key = folder / f"c{seed}.key" if spec.get("masked") else None
    campaign = Campaign.create(spec, store=store, key=key)
    given: list[dict[str, int]] = []
    for wave, size in enumerate(spec["grid"]["sizes"]):
        units = {spec["unit"]: [f"{wave}/{number}" for number in range(size)]}
        for name in spec["features"].get("numeric", {}):
            units[name] = random.standard_normal(size)
        for name, levels in spec["features"].get("categorical", {}).items():
            units[name] = random.choice(levels, size)
        table = pl.DataFrame(campaign.assign(pl.DataFrame(units)).table)
        actions = table["action"].to_list()
        if key is not None:
            codes = json.loads(key.read_text(encoding="utf-8"))["codes"]
            actions = [codes[code] for code in actions]
        given.append(dict(Counter(actions)))
        outcomes = {
            metric: (random.random(size) < [own[action] for action in actions]).astype(int)
            for metric, own in rates.items()
        }
        campaign.record(pl.DataFrame({spec["unit"]: table[spec["unit"]], **outcomes}))
        campaign.close()
        if key is not None and spec.get("stopping"):
            campaign.look(key)
        if campaign.situation().stop:
            break
    said = campaign.findings(key=key).plain()
    kept = {name: said[name] for name in ("recommendation", "lifts", "metrics")}
    return {**kept, "given": given, "stop": wave + 1 < len(spec["grid"]["sizes"])}


def quantities(
    setting: Setting, rates: Mapping[str, Mapping[str, float]], found: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[float, float]]:
    """Return shares and means over real campaigns, each with its standard error."""
    own, control = rates[setting.metric], setting.control
    best = max(own, key=lambda name: own[name])
    rows: dict[str, list[float]] = defaultdict(list)
    for one in found:
        made = one["recommendation"]
        action = made["action"] if made and made["code"] in ("give", "give-changed") else None
        right = action is not None and action == best and own[best] > own[control]
        rows["right action"].append(right)
        rows["wrong action"].append(action is not None and not right)
        rows["waves"].append(len(one["given"]))
        units = sum(sum(wave.values()) for wave in one["given"])
        rows["units"].append(units)
        together = []
        for lift in one["lifts"]:
            name, true = lift["action"], own[lift["action"]] - own[control]
            rows[f"share of {name}"].append(sum(wave.get(name, 0) for wave in one["given"]) / units)
            shown = {"": lift["interval"], ", adjusted for looks": lift["adjusted"]}
            for more, interval in shown.items():
                if interval is not None and interval["low"] is not None:
                    about = f"the lift of {name}{more}"
                    covers = interval["low"] <= true <= interval["high"]
                    rows[f"bias of {about}"].append(interval["estimate"] - true)
                    rows[f"coverage of {about}"].append(covers)
            # The lift that findings show first.
            first = lift["adjusted"] or lift["together"]
            clear = first["low"] is not None and (first["low"] > 0 or first["high"] < 0)
            if true:
                rows[f"power for {name}"].append(clear and first["estimate"] > 0)
            elif first["low"] is not None:
                together.append(clear)
        if together:
            rows["any true null rejected"].append(any(together))
        for metric in one["metrics"]:
            for rail in (metric["guardrail"] or {}).get("actions", ()):
                rows[f"{metric['name']} broken under {rail['action']}"].append(
                    rail["code"] == "broken"
                )
        for name in setting.spec.get("capacity", ()):
            rows[f"{name}, each wave, used"].append(max(w.get(name, 0) for w in one["given"]))
        if "budget" in setting.spec:
            spent = [sum(setting.costs[a] * n for a, n in w.items()) for w in one["given"]]
            rows["budget, each wave, used"].append(max(spent))
        if setting.spec.get("stopping"):
            rows["stops early"].append(one["stop"])
    return {name: _mean(np.array(values)) for name, values in rows.items()}


def _mean(values: Any) -> tuple[float, float]:
    n = len(values)
    if values.dtype == np.bool_:
        # As Agresti and Coull: never 0.
        near = (values.sum() + 2) / (n + 4)
        return float(values.mean()), sqrt(near * (1 - near) / (n + 4))
    return float(values.mean()), float(values.std(ddof=1) / sqrt(n))


# ----------------------------------------------------------------------
# The same numbers of a rehearsal.


def rehearsed(truth: Mapping[str, Any], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the same shares and means of a rehearsal."""
    made = {
        "right action": _share(truth["verdicts"]["right action"]),
        "wrong action": _share(truth["verdicts"]["wrong action"]),
        "waves": (truth["waves"]["mean"], truth["waves"]["error"]),
        "units": (truth["units"]["mean"], truth["units"]["error"]),
    }
    if (test := truth["tests"].get("any lift, all together")) is not None:
        made["any true null rejected"] = _share(test)
    for name in names:
        part = truth["allocation"][name]
        made[f"share of {name}"] = part["mean"], part["error"]
        for about in (f"lift of {name}", f"lift of {name}, adjusted for looks"):
            if (lift := truth["estimates"].get(about)) is not None:
                made[f"bias of the {about}"] = lift["bias"]["mean"], lift["bias"]["error"]
                made[f"coverage of the {about}"] = _share(lift["coverage"])
        if name in truth["power"]:
            made[f"power for {name}"] = _share(truth["power"][name])
    for name, rail in truth["guardrails"].items():
        metric, _, action = name.partition(": ")
        made[f"{metric} broken under {action}"] = _share(rail["broken"])
    for name, limit in truth["limits"].items():
        made[f"{name}, used"] = limit["used"]["mean"], limit["used"]["error"]
    # Not after the last wave.
    early = [one["share"] for one in truth["stops"] if one["wave"] < truth["most waves"]]
    total, more = sum(early), truth["campaigns"] + 4
    near = (total * truth["campaigns"] + 2) / more
    made["stops early"] = total, sqrt(near * (1 - near) / more)
    return made


def _share(own: Mapping[str, Any]) -> tuple[float, float]:
    return own["share"], own["error"]


# ----------------------------------------------------------------------
# The speed of a rehearsal.


#: The spec that the time is promised for: 3 waves of 1,000 units, 3 actions, 10 features.
USUAL = {
    "name": "usual", "seed": 1, "unit": "customer", "control": "none", "randomised": 0.2,
    "actions": ["none", "mail", "call"], "grid": {"sizes": [1_000] * 3},
    "metrics": {"sale": {"kind": "yes/no"}}, "objective": {"maximise": "sale"},
    "features": {"numeric": {f"x{number}": {"mean": 0, "sd": 1} for number in range(10)}},
}  # fmt: skip
TIMED = 50


def speed() -> float:
    """Return the processor seconds of 1,000 campaigns of the usual spec."""
    truth = {"none": 0.1, "mail": 0.12}
    rehearse(USUAL, truths=[truth], campaigns=1)
    before = _processor()
    rehearse(USUAL, truths=[truth], campaigns=TIMED, seed=1)
    # Two truths: the null, and the declared one.
    return (_processor() - before) / (2 * TIMED) * 1_000


# ----------------------------------------------------------------------
# Why some tests reject less often than their level.


#: The share of units that buy where sales are not rare.
MANY = 0.4


def causes(campaigns: int) -> None:
    """Print type I errors with many events, and with Student's t in place of few events' limits."""
    for setting, usual in ((MAIL, "many buy"), (LIMITED, "many buy"), (LIMITED, "Student's t")):
        truth = {"none": MANY if usual == "many buy" else setting.truth["none"]}
        if "metrics" in setting.truth:
            truth["metrics"] = {"left": {"none": 0.01}}
        student = {"return_value": None} if usual == "Student's t" else {"wraps": _rare_shape}
        with patch("seqbatch.inference.estimates._rare_shape", **student):
            made = rehearse(setting.spec, truths=[truth], campaigns=campaigns, seed=1)
        print(f"{setting.spec['name']}, {usual}:")
        for name, error in _errors(made.data["truths"][0], NOMINAL).items():
            print(f"  {name}: {error}")


# ----------------------------------------------------------------------
# The page.


TEXT = """# Do rehearsals predict real campaigns?

Made by `python -m benchmarks.rehearsal`. A [rehearsal](how-to/rehearse.md) runs a spec many times
in memory. Here its numbers are set beside those of campaigns that separate, plain code ran: it
draws its own units and outcomes, calls the public methods of `Campaign` with an SQLite store, and
reads the JSON of the findings. ± is a standard error, and z a difference in standard errors.

{said}

{counts}

1,000 campaigns of 3 waves of 1,000 units, with 3 actions and 10 features, take {seconds:.0f}
seconds of processor time (measured on {timed} campaigns), so {wall:.0f} seconds on two idle cores.

## Type I errors

How often a true hypothesis is rejected where no action differs, divided by the nominal error of 5%.
A blank test was never made: shares that cannot differ, too few events, or no rule.

{errors}

What lies outside 0.8 to 1.05 for a reason:

- *The stopping rule* with several actions stops for harm only if all are worse: it errs half as
  often as its level.
- *The actions' shares*: balanced draws (capacities, budgets) are never rejected. With 100 units in
  two arms, drawn independently, the exact error is {exact:.4f}, as counts are whole numbers.
- *Rare sales* (mail, calls): with few events in a wave, limits are wider on the safe side. Where
  40% buy, 300 rehearsed mails err 1.00 ± 0.25 times their level in *any lift* and 1.20 ± 0.20 in
  *the same lift in every wave*, and 300 calls 0.83 ± 0.17 in the latter.
- *Gains of the run* (calls): limits for rare events take the larger of two variances. In the same
  300 campaigns, Student's t errs 0.93 ± 0.14 times its level. After an early stop (masked), gains
  reject more often, because they take no account of looks.
- *Gain of the rule to run next*: its interval is widened, as the same data choose and judge it.
- *Any change of a feature* is corrected as if its tests were independent, which they are not. By
  computation the error is {columns}.

`--causes 300` prints the comparisons.

{sections}
"""


@dataclass(frozen=True)
class Measured:
    """What was measured of one setting: a section, its type I errors by test, and differences."""

    setting: Setting
    section: str
    errors: dict[str, str]
    away: list[float]
    counts: str


def measured(setting: Setting, asked: argparse.Namespace) -> Measured:
    """Return what a rehearsal and real campaigns found; both go on from what is kept."""
    mark = hashlib.blake2b(repr(setting).encode(), digest_size=4).hexdigest()
    keep = asked.keep / f"{setting.spec['name']}-{mark}"
    before = _processor()
    made = rehearse(
        setting.spec, truths=[setting.truth], campaigns=asked.rehearsed, jobs=asked.jobs, seed=1,
        parts=keep / f"rehearsed-{asked.rehearsed}",
    )  # fmt: skip
    spent = [_more(keep / "rehearsed.seconds", _processor() - before)]
    before = _processor()
    names = [name for name in setting.costs if name != setting.control]
    columns, away, errors = [], [], {}
    for place, rates in enumerate((setting.null(), setting.rates)):
        truth = {**made.data["truths"][place], "most waves": len(setting.spec["grid"]["sizes"])}
        parts = [range(at, min(at + PART, asked.real)) for at in range(0, asked.real, PART)]
        run = partial(real, setting, rates, keep / f"real-{place}")
        # A fork of a process with threads may wait forever.
        with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
            found = [one for some in pool.map(run, parts) for one in some]
        one, other = rehearsed(truth, names), quantities(setting, rates, found)
        columns.append({name: (one[name], own) for name, own in other.items()})
        away += [_away(*pair) for pair in columns[-1].values()]
        if not place:
            errors = _errors(truth, made.data["stopping"]["alpha"])
    spent.append(_more(keep / "real.seconds", _processor() - before))
    counts = (
        f"{setting.spec['name']}: {asked.rehearsed:,} rehearsed under each truth "
        f"({spent[0]:,.0f} s of processor time), {asked.real:,} through SQLite ({spent[1]:,.0f} s)"
    )
    print(counts, flush=True)
    section = "\n".join([f"## {setting.title}", "", *_beside(setting, columns)])
    return Measured(setting, section, errors, away, counts)


def _more(file: Path, seconds: float) -> float:
    """Add seconds to those of earlier runs; return the sum."""
    total = seconds + (float(file.read_text(encoding="utf-8")) if file.exists() else 0.0)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{total}\n", encoding="utf-8")
    return total


Pair = tuple[tuple[float, float], tuple[float, float]]


def _away(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return a difference in standard errors."""
    (p, e), (q, f) = one, other
    return 0.0 if abs(p - q) < 1e-12 else (p - q) / (hypot(e, f) or 1e-12)


def _beside(setting: Setting, columns: Sequence[Mapping[str, Pair]]) -> Iterator[str]:
    """Yield a table of both truths: rehearsed, through SQLite, and how far they differ."""
    name = setting.truth["name"]
    yield f"| | no action differs | through SQLite | {name} | through SQLite | z |"
    yield "|---|---:|---:|---:|---:|---:|"
    every = dict.fromkeys(row for column in columns for row in column)
    for row in every:
        # Of a lift that is adjusted for looks, the plain one is not the headline.
        if f"{row}, adjusted for looks" in every:
            continue
        cells = [text for column in columns for text in _cells(column.get(row))]
        far = max((_away(*column[row]) for column in columns if row in column), key=abs)
        yield f"| {row} | {' | '.join(cells)} | {far:+.1f} |"


def _cells(pair: Pair | None) -> list[str]:
    return ["", ""] if pair is None else [f"{value:.4g}" for value, _ in pair]


def _errors(truth: Mapping[str, Any], alpha: float) -> dict[str, str]:
    """Return each test's error under the null, divided by its nominal one."""
    made = {}
    for name, own in truth["tests"].items():
        nominal = alpha if name == RULE else NOMINAL
        # That of one action by itself claims nothing beside other actions and looks.
        if not (name.startswith("lift of ") and name.endswith(", by itself")):
            made[name] = f"{own['share'] / nominal:.2f} ± {own['error'] / nominal:.2f}"
    return made


def _table(made: Sequence[Measured]) -> str:
    """Return the errors of all tests, a column for each spec."""
    return "\n".join([
        f"| test | {' | '.join(one.setting.spec['name'] for one in made)} |",
        f"|---|{'---:|' * len(made)}",
        *(
            f"| {name} | {' | '.join(one.errors.get(name, '') for one in made)} |"
            for name in dict.fromkeys(name for one in made for name in one.errors)
        ),
    ])  # fmt: skip


def _exact(units: int = 100) -> float:
    """Return the exact error of the test of two equal shares, with independent draws."""
    far = [count for count in range(units + 1) if (2 * count - units) ** 2 / units > QUANTILE]
    return float(sum(comb(units, count) for count in far) / 2**units)


def _columns(draws: int = 400_000) -> str:
    """Return the error of the tests of features, from draws of normal means of columns."""
    said = []
    for setting in SETTINGS:
        features, sizes = setting.spec["features"], np.array(setting.spec["grid"]["sizes"])
        random, tests = np.random.default_rng(1), []
        groups = [1] * len(features.get("numeric", {}))
        groups += [len(levels) for levels in features.get("categorical", {}).values()]
        for size in groups:
            # Indicators of one category sum to 1, so that their means are dependent.
            drawn = random.standard_normal((draws, len(sizes), size)) / np.sqrt(sizes)[:, None]
            if size > 1:
                drawn = (drawn - drawn.mean(2, keepdims=True)) / sqrt(1 - 1 / size)
            away = (drawn[:, 1:] - drawn[:, :1]) / np.sqrt(1 / sizes[1:] + 1 / sizes[0])[:, None]
            tests += list(np.abs(away).max(axis=1).T)
        bound = ndtri(1 - NOMINAL / 2 / len(tests) / (len(sizes) - 1))
        share = float((np.max(tests, axis=0) > bound).mean())
        said.append(f"{share / NOMINAL:.2f} ({setting.spec['name']})")
    return ", ".join(said)


def _processor() -> float:
    """Return the processor time of this process and of those that it ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Measure the settings, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearsed", type=int, default=REHEARSED)
    parser.add_argument("--real", type=int, default=REAL)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=KEEP, help="folder to resume from")
    parser.add_argument("--causes", type=int, metavar="CAMPAIGNS", help="print these alone")
    parser.add_argument("--only", nargs="+", default=[one.spec["name"] for one in SETTINGS])
    parser.add_argument("--out", type=Path, default=PAGE)
    asked = parser.parse_args()
    if asked.causes:
        causes(asked.causes)
        return
    made = [measured(one, asked) for one in SETTINGS if one.spec["name"] in asked.only]
    seconds = speed()
    page = TEXT.format(
        said=_said([z for one in made for z in one.away]),
        counts="\n".join(f"- {one.counts}" for one in made),
        errors=_table(made), columns=_columns(), exact=_exact(), seconds=seconds,
        timed=2 * TIMED, wall=seconds / 2,
        sections="\n\n".join(one.section for one in made),
    )  # fmt: skip
    asked.out.write_text(page, encoding="utf-8")


def _said(away: Sequence[float]) -> str:
    large = sum(abs(z) > 2 for z in away)
    return (
        f"Of {len(away)} pairs of numbers, {large} differ by more than two standard errors (by "
        f"chance {0.0455 * len(away):.1f} would), and the largest difference has "
        f"{max(map(abs, away)):.1f}."
    )


if __name__ == "__main__":
    main()
