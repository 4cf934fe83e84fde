"""Write a first spec, with comments: an example, or one that fits a file of units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from seqbatch.campaign.files.number_format import THOUSANDS
from seqbatch.campaign.files.reading import Source, source_of
from seqbatch.campaign.spec.choices import Choices as Choices
from seqbatch.campaign.spec.column_proposal import FEATURES, ColumnProposal
from seqbatch.campaign.spec.draft import Draft, draft_of
from seqbatch.campaign.spec.feature_limit import width
from seqbatch.campaign.spec.metrics import YES_NO
from seqbatch.campaign.spec.plan import planned
from seqbatch.campaign.spec.toml import comment, key, parse_spec, quoted, setting, value
from seqbatch.display import counted, number
from seqbatch.output_files import atomically, require_target
from seqbatch.planning.outcome_scale import OutcomeScale
from seqbatch.planning.result_text import reason as planned_reason

# ----------------------------------------------------------------------
# Wave sizes for a first spec: equal, or planned, with the reason.


def equal_sizes(units: int, waves: int) -> tuple[int, ...]:
    """Split units into waves of equal size; the last wave gets the remainder.

    >>> equal_sizes(100, 3), equal_sizes(1, 2)
    ((33, 33, 34), (1, 1))
    """
    each = max(units // waves, 1)
    return (*[each] * (waves - 1), max(units - (waves - 1) * each, 1))


def planned_sizes(
    text: str, units: int, waves: int | None, scale: OutcomeScale
) -> tuple[tuple[int, ...], str]:
    """Return the wave sizes that a plan for a spec recommends, and the reason.

    Parameters
    ----------
    text
        The spec, with any sizes.
    units, waves
        The number of each; if `waves` is None the plan chooses it.
    scale
        How much outcomes vary, and the smallest lift worth finding.
    """
    noise = {"noise": scale.noise} if scale.base_rate is None else {"base_rate": scale.base_rate}
    wanted = {"units": units, "batches": waves, "effect": scale.lift, **noise}
    made = planned(parse_spec(text), wanted)
    size = f"{counted(units, 'unit')} of {counted(made.model.dim - 1, 'feature')}"
    reason = planned_reason(made, noun="wave").rstrip(".")
    [effect], spread = made.request.law.guesses, made.request.law.spread
    assumed = (
        f"Assumed: {scale.text()}; the best choice of actions gains about {number(effect)} per "
        f"unit, give or take a factor of {spread:g}"
    )
    return made.grid.sizes, f"by a plan for {size}. {reason}. {assumed}"


# ----------------------------------------------------------------------
# Write a first spec: a commented example, or one that a file of units can use unchanged.


#: The default number of waves.
WAVES = 3
#: The comment above each kind of feature.
HEADS = {
    "numeric": (
        'Numbers. "learn" clips at the quantiles 0.001 and 0.999 of the first wave and scales '
        'by its mean and standard deviation; later waves use the same scaling. "raw" leaves '
        'numbers unchanged; {mean = 40, sd = 12} fixes the scaling now. missing: "mean", '
        '"median" or a number to use for missing values (if more than 5% of the first wave are '
        "missing, an indicator is added). missing_values: values that stand for a missing one."
    ),
    "date": (
        'Dates. "days" is the number of days before `start`, scaled like the numbers above; '
        'parts may also list "weekday" and "month", with an indicator for each.'
    ),
    "boolean": (
        'Yes or no, in any usual spelling; a missing value is refused, or counts as a "level".'
    ),
    "categorical": (
        "Categories: an indicator for each level. least: a level with fewer units in the first "
        "wave counts as `other`, as does any value that is not listed (other = true). {hash = "
        "16} maps many levels to few cells."
    ),
}
EXAMPLE = Draft(
    "",
    10_000,
    ("unit",),
    (
        ColumnProposal("age", "numeric", '"learn"'),
        ColumnProposal("region", "categorical", '["north", "south"]'),
    ),
)


@dataclass(frozen=True)
class FirstSpec:
    """A spec to start from, its file's columns and how it was read, and what a plan assumed."""

    text: str
    draft: Draft
    sizes: tuple[int, ...]
    read_as: str = ""
    assumed: OutcomeScale | None = None

    @property
    def features(self) -> int:
        """The number of features: numbers of the model for one unit, besides the constant."""
        return sum(width(each) for each in self.draft.columns if each.became in FEATURES)

    @property
    def crowded(self) -> bool:
        """Whether the first wave has fewer units for each action than the model has features."""
        actions = len(parse_spec(self.text).actions)
        return self.features * actions > self.sizes[0]


def first_spec(units: Source | Any = None, choices: Choices | None = None) -> FirstSpec:
    """Return a spec that fits a file of units without editing; an example if there is no file.

    Parameters
    ----------
    units
        A source, or a file or table of units to make one from.
    choices
        What you already know about the campaign.
    """
    choices = choices or Choices()
    choices.check()
    draft, read_as = EXAMPLE, ""
    if units is not None:
        with source_of(units) as opened:
            today = choices.today or date.today()
            draft = draft_of(opened, choices, today=today)
            read_as = opened.read_as
    total, assumed = choices.units_in_all or draft.rows, None
    sizes, why = (
        equal_sizes(total, choices.waves or WAVES),
        "equal waves; a plan finds better sizes",
    )
    if choices.sizes is not None:
        sizes, why = tuple(choices.sizes), "as planned" if choices.plan else "as requested"
        assumed = choices.scale if choices.plan else None
    elif choices.plan:
        text, assumed = _text(choices, draft, sizes, ""), choices.scale
        sizes, why = planned_sizes(text, total, choices.waves, assumed)
    return FirstSpec(_text(choices, draft, sizes, why), draft, sizes, read_as, assumed)


def starting_spec(units: Source | Any = None, **choices: Any) -> str:
    """Return a spec as text; see :func:`first_spec` and :class:`Choices`."""
    return first_spec(units, Choices(**choices)).text


def write_spec(
    path: str | Path,
    units: Source | Any = None,
    *,
    force: bool = False,
    **choices: Any,
) -> FirstSpec:
    """Write a first spec to a .toml file; overwrite an existing file only by force."""
    given = None if units is None else source_of(units)
    files = [given.file] if given is not None and given.file else []
    require_target(path, force=force, endings=(".toml",), apart_from={"units": files})
    made = first_spec(given, Choices(**choices))
    with atomically(path) as partial:
        partial.write_text(made.text, encoding="utf-8")
    return made


ELIGIBLE = (
    "\n# Which units may get an action.\n# [eligible]\n"
    '# "an action" = "a column of yes and no"  # or a rule: "age >= 18 and not member"\n'
)
CAPACITY = (
    '# [capacity]\n# "an action" = 500  # in each wave; or {total = 1200}, {at_least = 200}\n'
)
BUDGET = (
    '# [budget]\n# total = 10000  # needs costs: actions = ["none", {name = "call", cost = 4.5}]\n'
)
STOPPING = (
    "# [stopping]\n"
    '# rule = "obrien-fleming-spending"  # applied whenever a wave is closed\n'
    "# futility = true  # also stop if success has become unlikely\n"
)


def _text(choices: Choices, draft: Draft, sizes: tuple[int, ...], why: str) -> str:
    parts = [
        _heading(draft),
        _who(choices, draft),
        _what(choices),
        _how(choices),
        _metric(choices, draft),
        _objective(choices),
        f"\n[features]\n{setting('intercept', 'true')}",
        '# interactions = [["one feature", "another"]]  # also use their products\n',
        *(_features(draft, kind) for kind in FEATURES),
        _left_out(draft),
        f"\n[grid]\n{setting('sizes', value(list(sizes)), why)}",
        "# or calendar = true with waves = 3, units = 10000: a wave ends when you close it\n",
        _eligible(choices, draft),
        _limits(choices),
        _stopping(choices),
        "\n# Without this table, the recommended policy is used.\n# [policy]\n"
        '# kind = "ThompsonSampling"\n',
    ]
    return "".join(parts)


def _heading(draft: Draft) -> str:
    origin = f", proposed for {quoted(draft.origin)} ({draft.rows:,} rows)" if draft.origin else ""
    return comment(
        f"A campaign in waves{origin}. Everything can be changed until the campaign is created; "
        "lines that start with # are comments."
    )


def _who(choices: Choices, draft: Draft) -> str:
    made = setting("name", quoted(choices.name))
    made += setting(
        "question",
        quoted(choices.question or "Which action brings the most?"),
        "the title of the findings and of the report",
        active=choices.question is not None,
    )
    made += setting(
        "owner",
        quoted(choices.owner or "crm team"),
        "who answers for the campaign",
        active=choices.owner is not None,
    )
    if draft.origin:
        made += setting("file", quoted(draft.origin), "the units that this spec was proposed for")
    if draft.origin and draft.reading:
        made += setting("reading", value(draft.reading), "how that file was read")
    made += setting(
        "seed",
        str(choices.seed),
        "the start of the random draws; anyone who knows it can predict them",
    )
    if len(draft.unit) == 1:
        why = "the column that identifies units; ids are text, leading zeros are kept"
        made += setting("unit", quoted(draft.unit[0]), why)
    else:
        why = "no single column has a different value in every row; these two together do"
        made += setting("unit", value(list(draft.unit)), why)
        why = "rows with the same value are one cluster for inference"
        made += setting("cluster", quoted(draft.unit[0]), why)
    if draft.has_dates:
        why = "the day of the first wave; date features count the days before it"
        made += setting("start", (choices.today or date.today()).isoformat(), why)
    return made


def _what(choices: Choices) -> str:
    first = "" if choices.control else "; the first action, since no control was named"
    return (
        "\n"
        + setting("actions", value(choices.declared), "what can be done to a unit")
        + setting(
            "control", quoted(str(choices.controlled)), f"other actions are compared with it{first}"
        )
        + setting(
            "currency",
            quoted(choices.currency or "EUR"),
            "of the costs of actions, of values and of the budget",
            active=choices.currency is not None,
        )
    )


def _how(choices: Choices) -> str:
    share, least = f"{choices.randomised:g}", f"{choices.least:g}"
    required = f"{choices.required_outcomes:g}"
    return (
        "\n"
        + setting(
            "randomised",
            share,
            "this share of units gets a random action, for unbiased measurement",
        )
        + setting("floor", least, "the minimum probability of each action for all other units")
        + setting(
            "required_outcomes",
            required,
            "a wave can be closed when this share of outcomes is recorded",
        )
        + setting("on_unseen_category", '"other"', 'or "error" to refuse unknown levels')
    )


def _metric(choices: Choices, draft: Draft) -> str:
    """Return the table of the metric that the campaign is about."""
    kind, number = choices.measured, choices.measured != YES_NO
    least = value(list(choices.range or (0, 1)))
    comma = "uncomment this if outcomes have a decimal comma, as the units do"
    unit, absent, own = choices.unit_of_measure, choices.absent, dict(choices.settings)
    column = own.pop("column", choices.metric)
    parts = [
        f"\n# What is measured on a unit. Add a table for every further metric.\n"
        f"[metrics.{key(choices.metric)}]\n",
        setting("kind", quoted(kind), '"yes/no", "count" or "amount"'),
        setting("column", quoted(column), "its column in the outcome files"),
        setting("unit", quoted(unit or "EUR"), "its unit of measure", active=unit is not None),
        setting(
            "absent",
            value(absent or 0),
            "a unit without a row counts as this when its wave is closed",
            active=absent is not None,
        ),
        setting(
            "rows",
            quoted(choices.rows or ("sum" if number else "any")),
            "what several rows of one unit mean; without it they are refused",
            active=choices.rows is not None,
        ),
    ]
    if number:
        parts.append(
            setting("range", least, "values outside are quarantined", active=bool(choices.range))
        )
    if number and draft.decimal_comma and "format" not in own:
        parts.append(setting("format", quoted(THOUSANDS), comma, active=False))
    parts += [setting(name, value(given)) for name, given in own.items()]
    for name, table in choices.metrics.items():
        parts.append(f"\n[metrics.{key(name)}]\n{_settings(table)}")
    return "".join(parts)


def _settings(table: Mapping[str, Any]) -> str:
    """Return the settings of a table, in lines."""
    return "".join(setting(name, value(given)) for name, given in table.items())


def _objective(choices: Choices) -> str:
    """Return the table of the objective."""
    verb, other = "maximise", "minimise"
    if choices.direction == "min":
        verb, other = other, verb
    worth, less = choices.value, choices.less_costs
    return (
        "\n[objective]\n"
        + setting(verb, quoted(choices.metric), f"or {other}")
        + setting(
            "value",
            value(worth or 12.5),
            f"what one {choices.metric} is worth, in the currency",
            active=worth is not None,
        )
        + setting(
            "less_costs",
            value(bool(less)),
            "true: profit, the costs of actions are subtracted",
            active=less is not None,
        )
        + setting(
            "purpose",
            value("choose" if choices.purpose == "earn" else choices.purpose),
            "only the action chosen at the end counts; {after = 100000}: a roll-out, too",
            active=choices.purpose != "earn",
        )
    )


def _features(draft: Draft, kind: str) -> str:
    """Return the table of one kind of feature, with questions; "" if there are neither."""
    own = [column for column in draft.columns if kind in (column.became, column.among)]
    if not own:
        return ""
    lines = "".join(
        setting(each.column, each.setting, each.why, active=each.became == kind) for each in own
    )
    return f"\n{comment(HEADS[kind])}[features.{kind}]\n{lines}"


def _eligible(choices: Choices, draft: Draft) -> str:
    """Return the rules of actions, with questions about consent; without both an example."""
    consent = [each for each in draft.columns if each.became == "eligibility"]
    asked = [each for each in draft.columns if each.among == "eligibility"]
    rules = draft.eligible.items()
    if not rules and not asked:
        return ELIGIBLE
    made = "\n" + comment(f"Which units may get an action.{_of_consent(choices, consent, asked)}")
    made += "".join(comment(f"  {quoted(each.column)} {each.why}") for each in consent)
    made += f"{'' if rules else '# '}[eligible]\n"
    made += "".join(setting(action, quoted(rule)) for action, rule in rules)
    made += "".join(
        comment(f"{quoted(each.column)} {each.why}")
        + setting("an action", quoted(each.rule), active=False)
        for each in asked
    )
    features = {each.column for each in draft.columns if each.became in FEATURES}
    beside = draft.beside | {
        name: kind for name, kind in choices.rule_columns.items() if name not in features
    }
    if beside:
        made += "\n# The columns that these rules read; they are not features.\n[columns]\n"
        made += "".join(setting(name, quoted(kind)) for name, kind in beside.items())
    return made


def _of_consent(
    choices: Choices, consent: Sequence[ColumnProposal], asked: Sequence[ColumnProposal]
) -> str:
    if not consent and not asked:
        return ""
    return (
        " CHECK: these rules were proposed because the names of columns speak of consent. Every "
        f"unit may get {choices.controlled}, the control."
    )


def _limits(choices: Choices) -> str:
    """Return the tables of capacities and of the budget; examples without them."""
    made = "\n# How many units may get an action, and what all actions may cost.\n"
    made += f"[capacity]\n{_settings(choices.capacity)}" if choices.capacity else CAPACITY
    return made + (f"[budget]\n{_settings(choices.budget)}" if choices.budget else BUDGET)


def _stopping(choices: Choices) -> str:
    made = "\n# When to stop early; this cannot be declared later.\n"
    return made + (f"[stopping]\n{_settings(choices.stopping)}" if choices.stopping else STOPPING)


def _left_out(draft: Draft) -> str:
    lines = [
        comment(f"  {quoted(each.column)}: {each.why}")
        for each in draft.columns
        if each.became == "left out"
    ]
    return "\n# Left out:\n" + "".join(lines) if lines else ""
