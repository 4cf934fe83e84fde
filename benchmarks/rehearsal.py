"""Rehearsals beside campaigns that separate, plain code runs through a real store."""

import argparse
import json
import resource
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import hypot, sqrt
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from seqbatch.campaign import Campaign, rehearse
from seqbatch.document import Table
from seqbatch.storage import open_store

PAGE, REHEARSED, REAL = Path("docs/rehearsal.md"), 1_000, 300
#: How many real campaigns share a store.
PART = 10

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
        "actions": ["none", "mail", "voucher"], "grid": {"sizes": [2_000, 3_000, 4_000]},
        "metrics": {
            "sale": {"kind": "yes/no", "absent": 0},
            "left": {"kind": "yes/no", "absent": 0, "guardrail": {"at_most_control_plus": 0.005}},
        },
        "objective": {"maximise": "sale"},
        "features": {"numeric": FEATURES, "categorical": {"region": ["north", "south", "west"]}},
    },
    {"name": "mail sells", "none": 0.01, "mail": 0.02,
     "metrics": {"left": {"none": 0.01, "voucher": 0.03}}},
    {"sale": {"none": 0.01, "mail": 0.02, "voucher": 0.01},
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
SETTINGS = (TRIAL, MAIL)

# ----------------------------------------------------------------------
# Real campaigns, by plain code: units and outcomes as frames, a store in a file.


def real(setting: Setting, rates: Mapping[str, Mapping[str, float]], seeds: range) -> list[Any]:
    """Run campaigns in an SQLite store; return what each of them found."""
    with TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "campaigns.db")
        found = [_real(setting, rates, store, seed) for seed in seeds]
        store.close()
    return found


def _real(
    setting: Setting, rates: Mapping[str, Mapping[str, float]], store: Any, seed: int
) -> dict[str, Any]:
    random = np.random.default_rng([77, seed])
    spec = {**setting.spec, "name": f"c{seed}", "seed": int(random.integers(2**40))}
    campaign = Campaign.create(spec, store=store)
    counts: dict[str, int] = defaultdict(int)
    for wave, size in enumerate(spec["grid"]["sizes"]):
        units = {spec["unit"]: [f"{wave}/{number}" for number in range(size)]}
        for name in spec["features"].get("numeric", {}):
            units[name] = random.standard_normal(size)
        for name, levels in spec["features"].get("categorical", {}).items():
            units[name] = random.choice(levels, size)
        table = pl.DataFrame(campaign.assign(pl.DataFrame(units)).table)
        given = table["action"].to_list()
        for action in given:
            counts[action] += 1
        outcomes = {
            metric: (random.random(size) < [own[action] for action in given]).astype(int)
            for metric, own in rates.items()
        }
        campaign.record(pl.DataFrame({spec["unit"]: table[spec["unit"]], **outcomes}))
        campaign.close()
        if campaign.situation().stop:
            break
    said = campaign.findings().plain()
    early = wave + 1 < len(spec["grid"]["sizes"])
    return {"said": said, "counts": dict(counts), "waves": wave + 1, "stop": early}


def quantities(
    setting: Setting, rates: Mapping[str, Mapping[str, float]], found: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[float, float]]:
    """Return shares and means over real campaigns, each with its standard error."""
    own, control = rates[setting.metric], setting.control
    best = max(own, key=lambda name: own[name])
    rows: dict[str, list[float]] = defaultdict(list)
    for one in found:
        said = one["said"]
        made = said["recommendation"]
        action = made["action"] if made and made["code"] in ("give", "give-changed") else None
        right = action is not None and action == best and own[best] > own[control]
        rows["right action"].append(right)
        rows["wrong action"].append(action is not None and not right)
        rows["waves"].append(one["waves"])
        rows["units"].append(sum(one["counts"].values()))
        units = sum(one["counts"].values())
        together = []
        for lift in said["lifts"]:
            name, true = lift["action"], own[lift["action"]] - own[control]
            rows[f"share of {name}"].append(one["counts"].get(name, 0) / units)
            interval, around = lift["interval"], lift["together"]
            if interval["low"] is None:
                continue
            rows[f"bias of the lift of {name}"].append(interval["estimate"] - true)
            rows[f"coverage of the lift of {name}"].append(
                interval["low"] <= true <= interval["high"]
            )
            clear = around["low"] is not None and (around["low"] > 0 or around["high"] < 0)
            if true:
                rows[f"power for {name}"].append(clear and around["estimate"] > 0)
            else:
                together.append(clear)
        if together:
            rows["any true null rejected"].append(any(together))
        for metric in said["metrics"]:
            for rail in (metric["guardrail"] or {}).get("actions", ()):
                rows[f"{metric['name']} broken under {rail['action']}"].append(
                    rail["code"] == "broken"
                )
        if setting.spec.get("stopping"):
            rows["stops early"].append(one["stop"])
    return {name: _mean(np.array(values, dtype=float)) for name, values in rows.items()}


def _mean(values: Any) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / sqrt(len(values)))


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
        lift = truth["estimates"][f"lift of {name}"]
        made[f"bias of the lift of {name}"] = lift["bias"]["mean"], lift["bias"]["error"]
        made[f"coverage of the lift of {name}"] = _share(lift["coverage"])
        if name in truth["power"]:
            made[f"power for {name}"] = _share(truth["power"][name])
    for name, rail in truth["guardrails"].items():
        metric, _, action = name.partition(": ")
        made[f"{metric} broken under {action}"] = _share(rail["broken"])
    if truth["stops"]:
        # Not after the last wave.
        shares = [one["share"] for one in truth["stops"] if one["wave"] < truth["most waves"]]
        total = sum(shares)
        made["stops early"] = total, sqrt(total * (1 - total) / truth["campaigns"])
    return made


def _share(own: Mapping[str, Any]) -> tuple[float, float]:
    return own["share"], own["error"]


# ----------------------------------------------------------------------
# The page.


TEXT = """# Rehearsals beside real campaigns

Made by `python -m benchmarks.rehearsal`. A [rehearsal](how-to/rehearse.md) runs a spec many times
in memory. Here its numbers are set beside those of campaigns that separate, plain code ran: it
draws its own units and outcomes, calls the public methods of `Campaign` with an SQLite store, and
reads the JSON of the findings.

{said}

{sections}
"""


def measured(setting: Setting, asked: argparse.Namespace) -> tuple[str, list[float]]:
    """Return the section of a setting, and all differences in standard errors."""
    start, before = time.perf_counter(), _processor()
    made = rehearse(
        setting.spec, truths=[setting.truth], campaigns=asked.rehearsed, jobs=asked.jobs, seed=1
    )
    seconds, spent = time.perf_counter() - start, _processor() - before
    names = [name for name in setting.spec["actions"] if name != setting.control]
    tables, away = [], []
    for place, rates in enumerate((setting.null(), setting.rates)):
        truth = {**made.data["truths"][place], "most waves": len(setting.spec["grid"]["sizes"])}
        parts = [range(at, min(at + PART, asked.real)) for at in range(0, asked.real, PART)]
        start = time.perf_counter()
        # A fork of a process with threads may wait forever.
        with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
            found = [one for some in pool.map(partial(real, setting, rates), parts) for one in some]
        print(f"{setting.title}, {truth['name']}: {time.perf_counter() - start:.0f} s", flush=True)
        one, other = rehearsed(truth, names), quantities(setting, rates, found)
        rows = []
        for name in other:
            (p, e), (q, f) = one.get(name, (0.0, 0.0)), other[name]
            z = 0.0 if abs(p - q) < 1e-12 else (p - q) / (hypot(e, f) or 1e-12)
            away.append(z)
            rows.append(f"| {name} | {_shown(p, e)} | {_shown(q, f)} | {z:+.1f} |")
        tables.append("\n".join([
            f"### {truth['name'].capitalize()}", "",
            f"| | rehearsed ({asked.rehearsed:,}) | through SQLite ({asked.real:,}) | "
            "difference in standard errors |", "|---|---:|---:|---:|", *rows]))  # fmt: skip
    title = f"## {setting.title}"
    print(
        f"{setting.title}: rehearsed in {seconds:.0f} s, {spent:.0f} s of processor time",
        flush=True,
    )
    printed = "\n\n".join(_markdown(table) for table in made.tables())
    body = ["As printed:", printed, "Beside real campaigns:", *tables]
    return "\n\n".join([title, *body]), away


def _processor() -> float:
    """Return the processor time of this process and of those that it ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _shown(value: float, error: float) -> str:
    return f"{value:.4g} ± {error:.1g}"


def _markdown(table: Table) -> str:
    lines = [f"*{table.title}*", "", f"| {' | '.join(table.columns)} |",
             f"|{'|'.join(['---'] * len(table.columns))}|"]  # fmt: skip
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in table.cells())])


def main() -> None:
    """Measure both settings, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearsed", type=int, default=REHEARSED)
    parser.add_argument("--real", type=int, default=REAL)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder for finished settings, to resume from")
    parser.add_argument("--only", nargs="+", default=[one.spec["name"] for one in SETTINGS])
    parser.add_argument("--out", type=Path, default=PAGE)
    asked = parser.parse_args()
    sections, away = [], list[float]()
    for setting in [one for one in SETTINGS if one.spec["name"] in asked.only]:
        section, own = _kept(setting, asked)
        sections.append(section)
        away += own
        page = TEXT.format(said=_said(away), sections="\n\n".join(sections))
        asked.out.write_text(page, encoding="utf-8")


def _kept(setting: Setting, asked: argparse.Namespace) -> tuple[str, list[float]]:
    """Return what an earlier run kept of a setting, or measure it."""
    file = None if asked.keep is None else asked.keep / f"{setting.spec['name']}.json"
    if file is not None and file.exists():
        plain = json.loads(file.read_text(encoding="utf-8"))
        return plain["section"], plain["away"]
    section, away = measured(setting, asked)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"section": section, "away": away}), encoding="utf-8")
    return section, away


def _said(away: Sequence[float]) -> str:
    large = sum(abs(z) > 2 for z in away)
    return (
        f"Of {len(away)} pairs of numbers, {large} differ by more than two standard errors (by "
        f"chance {0.0455 * len(away):.1f} would), and the largest difference has "
        f"{max(map(abs, away)):.1f}."
    )


if __name__ == "__main__":
    main()
