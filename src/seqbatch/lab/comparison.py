"""Your own comparison of policies, declared in a TOML file: runs it, tabulates and draws it."""

import importlib
import inspect
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqbatch import environments, policies
from seqbatch.display import cell, counted, visible
from seqbatch.document import Table, shown
from seqbatch.engine import Engine
from seqbatch.environments import Environment, Restricted
from seqbatch.errors import InvalidArgumentError
from seqbatch.grids import GridRule
from seqbatch.lab.charts import Rendered, drawn, interval_words, looks, pictured, save
from seqbatch.policies import Policy
from seqbatch.simulation import Line, Progress, summarise, sweep

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

KEYS = {"seed", "trials", "horizons", "method", "environments", "lines"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of a comparison.

    Parameters
    ----------
    summary
        Mean regret of each line at each horizon; see :func:`seqbatch.simulation.summarise`.
    policies
        The policy name of each line.
    files
        The files written.
    """

    summary: "pl.DataFrame"
    policies: Mapping[str, str]
    files: tuple[Path, ...]

    def tables(self) -> list[Table]:
        """Return the summary as one table per environment."""
        columns = ("policy", "units", "batches", "trials", "mean", "sd", "low", "high")
        title = "Regret in {}: mean, standard deviation, 95% interval of the mean"
        parts = self.summary.partition_by("environment", as_dict=True, maintain_order=True)
        return [
            Table(title.format(name), columns, part.select(columns).rows(), ("policy",), keys=2)
            for (name,), part in parts.items()
        ]

    def chart(self) -> "alt.TopLevelMixin":
        """Return the chart: regret against the horizon, one panel per environment."""
        return chart(self.summary, self.policies)

    def __repr__(self) -> str:
        lines, places = (self.summary[name].n_unique() for name in ("policy", "environment"))
        horizons = ", ".join(map(cell, sorted(set(self.summary["units"]))))
        return (
            f"<Comparison: {counted(lines, 'line')} in {counted(places, 'environment')} at "
            f"{horizons} units; "
            f"{counted(max(self.summary['trials'].to_list()), 'trial')}>"
        )

    def _repr_html_(self) -> str:
        return shown(repr(self), self.tables(), draw=lambda: Rendered(self.chart()))


def compare(
    spec: Path,
    *,
    out: Path,
    jobs: int = 1,
    engine: str | Engine = "local",
    report: Callable[[Progress], None] = lambda _: None,
) -> Comparison:
    """Run the comparison declared in a TOML file; return its summary and the files written.

    Parameters
    ----------
    spec
        The TOML file.
    out
        The output folder.
    jobs, engine
        The number of processes and the engine; see :func:`seqbatch.engine.open_engine`.
    report
        A function that is called with the progress.
    """
    declared = _read(spec)
    # Your classes may be in a module next to the file, as for a script.
    if (folder := str(spec.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    lines = {name: _line(name, parts) for name, parts in declared["lines"].items()}
    table = sweep(
        environments={
            name: _environment(f"environments.{name}", parts)
            for name, parts in declared["environments"].items()
        },
        lines=lines,
        horizons=declared["horizons"],
        trials=declared.get("trials", 20),
        seed=declared.get("seed", 0),
        method=declared.get("method", "auto"),
        out=out / "run",
        jobs=jobs,
        engine=engine,
        report=report,
    )
    summary = summarise(table)
    files = [out / "results.csv", out / "summary.csv", out / "regret.png", out / "regret.html"]
    flat = [name for name, kind in table.schema.items() if not kind.is_nested()]
    table.select(flat).write_csv(files[0])
    summary.write_csv(files[1])
    kinds = {name: type(line.policy).__name__ for name, line in lines.items()}
    comparison = Comparison(summary, kinds, tuple(files))
    picture = comparison.chart()
    for file in files[2:]:
        save(picture, file)
    return comparison


def _read(spec: Path) -> dict[str, Any]:
    try:
        declared = tomllib.loads(spec.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidArgumentError("spec", "a TOML file", f"{spec}, which does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("spec", "a TOML file", f"{spec}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgumentError("spec", "valid TOML", f"{spec}: {error}") from None
    for name in ("environments", "lines", "horizons"):
        if not declared.get(name):
            raise InvalidArgumentError("spec", f"a file that declares {name}", str(spec))
    if unknown := sorted(set(declared) - KEYS):
        raise InvalidArgumentError(
            "spec", f"composed of {', '.join(sorted(KEYS))}", f"{', '.join(unknown)} in {spec}"
        )
    if not isinstance(declared["horizons"], list):
        raise InvalidArgumentError("horizons", "a list of whole numbers", declared["horizons"])
    for name in ("environments", "lines"):
        for key, parts in declared[name].items():
            if not isinstance(parts, dict):
                raise InvalidArgumentError(f"{name}.{key}", "a table with a kind", repr(parts))
    return declared


def _environment(where: str, parts: dict[str, Any]) -> Environment:
    """Build an environment, which may have another one inside.

    `eligible` is the share of units that may get each action.
    """
    own = {key: value for key, value in parts.items() if key != "eligible"}
    if isinstance(own.get("environment"), dict):
        own["environment"] = _environment(f"{where}.environment", own["environment"])
    inside: Environment = _made(Environment, environments, where, own)
    if "eligible" not in parts:
        return inside
    if not isinstance(parts["eligible"], list):
        raise InvalidArgumentError(f"{where}.eligible", "a list of shares", parts["eligible"])
    if len(parts["eligible"]) != inside.actions:
        rule = f"a list of {inside.actions} shares, one per action"
        raise InvalidArgumentError(f"{where}.eligible", rule, parts["eligible"])
    return Restricted(inside, parts["eligible"])


def _line(name: str, parts: dict[str, Any]) -> Line:
    where = f"lines.{name}"
    if not isinstance(parts.get("grid"), dict):
        raise InvalidArgumentError(f"{where}.grid", "a table with a kind", parts.get("grid"))
    policy = _made(
        Policy, policies, where, {key: value for key, value in parts.items() if key != "grid"}
    )
    return Line(policy, _called(GridRule, f"{where}.grid", parts["grid"]))


def _made(protocol: Any, module: Any, where: str, parts: dict[str, Any]) -> Any:
    """Build an object from its parameters and its `kind`, a name in the module or a dotted path."""
    parameters = dict(parts)
    kind = parameters.pop("kind", None)
    if not isinstance(kind, str):
        raise InvalidArgumentError(f"{where}.kind", "a name or a dotted path", repr(kind))
    found = _found(kind, module, where, protocol)
    # Checked before the call: a dotted path can name any callable.
    if not (isinstance(found, type) and _keeps(protocol, found)):
        rule = f"a class that is a {protocol.__name__.lower()}"
        raise InvalidArgumentError(f"{where}.kind", rule, kind)
    return _called(found, where, parameters)


def _found(kind: str, module: Any, where: str, protocol: Any) -> Callable[..., Any]:
    if kind in module.__all__:
        return getattr(module, kind)  # type: ignore[no-any-return]
    path, _, name = kind.rpartition(".")
    try:
        return getattr(importlib.import_module(path), name)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, ValueError) as error:
        kinds = {name: getattr(module, name) for name in module.__all__}
        known = [n for n, k in kinds.items() if isinstance(k, type) and _keeps(protocol, k)]
        rule = f"one of {', '.join(known)}, or the dotted path of an importable class"
        # Without a dot nothing was imported.
        received = f"{kind!r} ({error})" if path else repr(kind)
        raise InvalidArgumentError(f"{where}.kind", rule, received) from error


def _keeps(protocol: Any, kind: type) -> bool:
    """Return whether a class has the members of a protocol and is not the protocol itself."""
    needed = [name for name in vars(protocol) if not name.startswith("_")]
    own = {*dir(kind), *getattr(kind, "__dataclass_fields__", ()), *_annotated(kind)}
    return not getattr(kind, "_is_protocol", False) and all(name in own for name in needed)


def _annotated(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in getattr(base, "__annotations__", ())}


def _called(make: Callable[..., Any], where: str, parameters: dict[str, Any]) -> Any:
    try:
        return make(**parameters)
    except TypeError as error:
        known = ", ".join(inspect.signature(make).parameters)
        # Python's message without the name of a function that the user never wrote.
        wrong = str(error).partition("() ")[2] or str(error)
        rule = f"parameters of {make.__name__} ({known})"
        raise InvalidArgumentError(where, rule, wrong) from None
    except InvalidArgumentError as error:
        # Name the line or environment that is wrong.
        name = f"{where}.{error.name}"
        raise InvalidArgumentError(name, error.rule, error.received, error.advice) from None


def chart(summary: "pl.DataFrame", policies: Mapping[str, str]) -> "alt.TopLevelMixin":
    """Draw regret against the horizon, given the policy name of each line."""
    import altair as alt
    import polars as pl

    # Show the policy beside the user's name, because it determines the colour.
    labels = {line: f"{visible(line)} ({policy})" for line, policy in policies.items()}
    styles = looks({labels[line]: policy for line, policy in policies.items()})
    table = summary.with_columns(line=pl.col("policy").replace(labels))
    scale = alt.Scale(zero=False, nice=False, padding=12)
    panels = [
        drawn(
            table.filter(pl.col("environment") == environment),
            styles,
            x=alt.X("units:Q", title="horizon T (units)", scale=scale, axis=alt.Axis(tickCount=6)),
            y=alt.Y("mean:Q", title="regret", scale=alt.Scale(zero=False)),
            interval=True,
        ).properties(
            width=420, height=280, title=alt.TitleParams(visible(environment), anchor="start")
        )
        for environment in dict.fromkeys(summary["environment"])
    ]
    return pictured(
        alt.concat(*panels, columns=2),
        styles,
        title="Regret against the horizon",
        subtitle=[interval_words(summary)],
        width=480 * min(len(panels), 2),
    )
