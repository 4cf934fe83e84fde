"""A rehearsal as a document: how campaigns of this very spec end, in sentences, tables, a chart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqbatch.campaign.record.rehearsal_file import RehearsalFile
from seqbatch.campaign.views.rehearsal_picture import draw
from seqbatch.display import number, percent
from seqbatch.document import Document, Part, Picture, Section, Table, as_notebook, require_format
from seqbatch.document import write as write_document

#: The nominal error of tests that have no separate level.
NOMINAL = 0.05
#: The words of the stopping rule's test among the tests.
RULE = "the stopping rule"


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The result of a rehearsal.

    Parameters
    ----------
    file
        Its numbers, as its JSON file has them.
    """

    file: RehearsalFile

    @property
    def data(self) -> Mapping[str, Any]:
        """The numbers."""
        return self.file.data

    @property
    def hash(self) -> str:
        """The hash of all numbers."""
        return self.file.hash

    @property
    def sentences(self) -> tuple[str, ...]:
        """The rehearsal in a few sentences."""
        return tuple(_sentences(self.data))

    def tables(self) -> list[Table]:
        """Return the operating characteristics as tables."""
        return list(tables(self.data))

    def parts(self) -> list[Part]:
        """Return sentences, the chart, the tables, and what they are based on."""
        return [*self.sentences, _picture(self.data), *self.tables(), *_basis(self)]

    def document(self) -> Document:
        """Return the rehearsal as a document."""
        title = f"Rehearsal of campaign {self.file.campaign}"
        first = Section("rehearsal", "Rehearsal", self.parts())
        return Document(title, first, data=self.file.plain())

    def plain(self) -> dict[str, Any]:
        """Return all numbers as plain values, with their hash."""
        return self.file.plain()

    def save(self, out: str | Path, *, file_format: str | None = None, force: bool = False) -> Path:
        """Write the rehearsal; return the file.

        Parameters
        ----------
        out
            The file: .html (a page that opens and prints without a network), .md or .json.
        file_format
            "html", "md" or "json"; needed if the file's name does not show it.
        force
            Overwrite an existing file.
        """
        made = require_format(Path(out), force=force, file_format=file_format)
        return write_document(self.document(), Path(out), file_format=made)

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return as_notebook(self.document())


# ----------------------------------------------------------------------
# In sentences.


def _sentences(data: Mapping[str, Any]) -> Iterator[str]:
    for truth in data["truths"]:
        verdicts, name = truth["verdicts"], truth["name"]
        if truth["null"]:
            yield (
                f"If {name}: {_share(verdicts['no action'])} of campaigns recommend no action, and "
                f"{_share(verdicts['wrong action'])} recommend one."
            )
            continue
        yield (
            f"Under {name!r}: {_share(verdicts['right action'])} of campaigns recommend the right "
            f"action, {_share(verdicts['wrong action'])} a wrong one, and "
            f"{_share(verdicts['no action'])} none."
        )


def _basis(made: Rehearsal) -> list[Part]:
    data = made.data
    forced = {code for truth in data["truths"] for code in truth["forced"]}
    parts: list[Part] = [
        f"{data['campaigns']:,} campaigns under each truth, seed {data['seed']}, with "
        f"{data['units']}. Each was created, assigned, recorded and closed by the code of real "
        "campaigns. ± is the standard error of the simulation.",
        f"Hash of the rehearsal: {made.hash}.",
    ]
    if forced:
        parts.insert(
            0,
            f"Some waves could be closed only by force ({', '.join(sorted(forced))}): see the "
            "table of refused closes.",
        )
    return parts


# ----------------------------------------------------------------------
# In tables.


def tables(data: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the operating characteristics of a rehearsal as tables."""
    yield _means(data)
    yield _ends(data)
    yield from _filled("How often tests reject a true hypothesis", TESTS, _tests(data), 2)
    yield from _filled("Power: how often an action is found to be better", POWER, _power(data), 2)
    yield from _filled("When the rule stops campaigns", STOPS, _stops(data), 3)
    yield _allocation(data)
    yield _earned(data)
    yield from _filled(f"Estimates ({data['measure']['column']})", ESTIMATES, _estimates(data), 2)
    yield from _filled("Guardrails", GUARDRAILS, _guardrails(data), 2)
    yield from _filled("Capacities and the budget", LIMITS, _limits(data), 2)
    yield from _filled("Closes that would have been refused", FORCED, _forced(data), 2)


TESTS = ("truth", "test", "rejects", "nominal", "tests")
POWER = ("truth", "action", "true lift", "found better", "recommended")
STOPS = ("truth", "after wave", "verdict", "campaigns")
ESTIMATES = (
    "truth", "estimate of", "true", "bias", "bias if stopped early", "covered by its 95% interval",
    "has an interval",
)  # fmt: skip
GUARDRAILS = ("truth", "guardrail", "truly", "kept", "broken", "not clear", "too few", "wrong")
LIMITS = ("truth", "limit", "allowed", "used on average", "used at most", "reached")
FORCED = ("truth", "reason", "campaigns")


def _filled(
    title: str, columns: tuple[str, ...], rows: Iterator[list[Any]], keys: int
) -> Iterator[Table]:
    """Yield a table, if it has rows."""
    if found := list(rows):
        yield Table(title, columns, found, words=columns[:keys], keys=keys)


def _named(data: Mapping[str, Any], what: str) -> Iterator[tuple[str, str, Any]]:
    """Yield each truth's name, and its entries of a kind by name."""
    for truth in data["truths"]:
        for name, own in truth[what].items():
            yield truth["name"], name, own


def _means(data: Mapping[str, Any]) -> Table:
    scale = data["measure"]["scale"]
    rows = [
        [truth["name"], *(_by_wave(truth["true means"][name], scale) for name in data["actions"])]
        for truth in data["truths"]
    ]
    columns = ("truth", *data["actions"])
    return Table(f"True means ({data['measure']['column']})", columns, rows, words=("truth",))


def _by_wave(means: list[float | None], scale: float) -> str:
    if None in means:
        return "not eligible"
    texts = [number(scale * one, 4) for one in means if one is not None]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def _ends(data: Mapping[str, Any]) -> Table:
    rows = []
    for truth in data["truths"]:
        verdicts = truth["verdicts"]
        right = "" if truth["null"] else _share(verdicts["right action"])
        others = [_share(verdicts[name]) for name in ("wrong action", "no action")]
        rows.append([truth["name"], right, *others, _mean(truth["waves"]), _mean(truth["units"])])
    columns = ("truth", "right action", "wrong action", "no action", "waves", "units")
    return Table("What campaigns recommend at their end", columns, rows, words=("truth",))


def _tests(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    alpha = data["stopping"]["alpha"]
    for truth, test, own in _named(data, "tests"):
        nominal = alpha if test == RULE else NOMINAL
        yield [truth, test, _share(own), percent(nominal), own["of"]]


def _power(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    scale, control = data["measure"]["scale"], data["control"]
    for truth in data["truths"]:
        for name, own in truth["power"].items():
            base, mean = truth["true means"][control], truth["true means"][name]
            lift = [one - other for one, other in zip(mean, base, strict=True)]
            yield [truth["name"], name, _by_wave(lift, scale), _share(own),
                   _share(truth["recommended"][name])]  # fmt: skip


def _stops(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    for truth in data["truths"]:
        for own in truth["stops"]:
            yield [truth["name"], own["wave"], own["verdict"], _share(own)]


def _allocation(data: Mapping[str, Any]) -> Table:
    rows = [
        [truth["name"], *(percent(round(truth["allocation"][name]["mean"], 3))
                          for name in data["actions"])]
        for truth in data["truths"]
    ]  # fmt: skip
    return Table(
        "Share of the units by action", ("truth", *data["actions"]), rows, words=("truth",)
    )


def _earned(data: Mapping[str, Any]) -> Table:
    scale = data["measure"]["scale"]
    names = ("earned", "equal", "best", "each")
    rows = [
        [truth["name"], *(_mean(truth[name], scale) for name in names)] for truth in data["truths"]
    ]
    columns = ("truth", "as run", "equal shares", "best action for all", "best for each")
    title = f"True mean outcome of the units ({data['measure']['column']})"
    return Table(title, columns, rows, words=("truth",))


def _estimates(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    scale = data["measure"]["scale"]
    for truth, name, own in _named(data, "estimates"):
        if own["bias"] is None:
            yield [truth, name, "", "", "", "", percent(round(own["known"]["share"], 3))]
            continue
        early = own["bias when stopped"]
        yield [
            truth, name, _by_wave([own["truth"]], scale), _mean(own["bias"], scale),
            "" if early is None else _mean(early, scale), _share(own["coverage"]),
            percent(round(own["known"]["share"], 3)),
        ]  # fmt: skip


def _guardrails(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    for truth, name, own in _named(data, "guardrails"):
        truly = "kept" if own["truly kept"] else "broken"
        codes = [value for key, value in own.items() if key not in ("truly kept", "wrong")]
        yield [truth, name, truly, *map(_share, codes), _share(own["wrong"])]


def _limits(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    for truth, name, own in _named(data, "limits"):
        yield [truth, name, own["limit"], _mean(own["used"]), number(own["most"]),
               _share(own["reached"])]  # fmt: skip


def _forced(data: Mapping[str, Any]) -> Iterator[list[Any]]:
    for truth, code, own in _named(data, "forced"):
        yield [truth, code, _share(own)]


def _share(own: Mapping[str, Any]) -> str:
    """Return a share in percent, with its standard error.

    >>> _share({"share": 0.0512, "error": 0.007, "of": 1000})
    '5.1% ± 0.7'
    """
    error = own["error"]
    shown = f"{100 * own['share']:.1f}%"
    return shown if error is None else f"{shown} ± {100 * error:.1f}"


def _mean(own: Mapping[str, Any], scale: float = 1.0) -> str:
    """Return a mean with its standard error, in the digits that the error supports.

    >>> _mean({"mean": 0.0512, "error": 0.0007}, 100), _mean({"mean": 3.0, "error": 0.0})
    ('5.12 ± 0.07', '3')
    """
    value, error = scale * own["mean"], scale * own["error"]
    # Sums of equal numbers differ by rounding.
    if error <= 1e-9 * abs(value):
        return number(round(value, 9))
    digits = max(0, -int(f"{error:e}".partition("e")[2]))
    return f"{value:,.{digits}f} ± {error:.{digits}f}"


# ----------------------------------------------------------------------
# As a chart.


def _picture(data: Mapping[str, Any]) -> Picture:
    words = "The share of campaigns that recommend each action or none, under each truth. "
    return Picture(lambda: draw(data), words + " ".join(_sentences(data)))
