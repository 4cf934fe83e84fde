"""Which columns of a sample are features: what is known of a unit before it is assigned."""

import re
from collections.abc import Mapping, Sequence

from seqbatch.errors import InvalidArgumentError

#: Words in a column's name that speak of what happens after the assignment, or of the assignment.
AFTERWARDS = frozenset([
    "action", "actions", "arm", "arms", "assigned", "assignment", "assignments", "bought",
    "churn", "churned", "clicked", "clicks", "conversion", "conversions", "converted",
    "experiment", "group", "label", "outcome", "outcomes", "policy", "probability", "propensity",
    "purchased", "response", "reward", "rewards", "segment", "target", "treated", "treatment",
    "treatments", "unsubscribed", "variant", "y",
])  # fmt: skip
#: Words in a column's name that speak of which unit it is.
IDENTITY = frozenset(["email", "guid", "id", "ids", "key", "phone", "uuid"])


def feature_columns(
    ids: Mapping[str, bool], wanted: Sequence[str] | None, outcomes: Sequence[str]
) -> list[str]:
    """Return the columns to use; ask where they cannot be known.

    Parameters
    ----------
    ids
        The file's columns, and whether each looks like an id by its values.
    wanted
        The columns that the user named as features, if any.
    outcomes
        Those that the user named as outcomes or treatments: never features.

    Examples
    --------
    >>> feature_columns({"age": False, "spend": False}, None, ["spend"])
    ['age']
    """
    unknown = [name for name in outcomes if name not in ids]
    if unknown:
        there = f"among the file's columns ({', '.join(ids)})"
        raise InvalidArgumentError("outcomes", there, ", ".join(unknown))
    if wanted is not None:
        both = [name for name in wanted if name in outcomes]
        if both:
            raise InvalidArgumentError(
                "columns",
                "without outcomes and treatments, which are not known when a unit is assigned",
                ", ".join(both),
            )
        return list(wanted)
    left = [name for name in ids if name not in outcomes]
    doubts = [
        f"{name} ({doubt})" for name in left if (doubt := _doubt(name, looks_like_id=ids[name]))
    ]
    if doubts:
        raise InvalidArgumentError(
            "columns",
            "given, as some of the file's columns may not be features",
            ", ".join(doubts),
            "Name the features with --columns, or the others with --outcomes.",
        )
    return left


def _doubt(name: str, *, looks_like_id: bool) -> str:
    """Say why a column may be no feature; nothing where there is no sign of it.

    >>> [_doubt(name, looks_like_id=False) for name in ("customer_id", "isTreated", "age")]
    ['an id by its name', 'an outcome or a treatment by its name', '']
    """
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    if words & AFTERWARDS:
        return "an outcome or a treatment by its name"
    if words & IDENTITY:
        return "an id by its name"
    return "different in every row, as ids are" if looks_like_id else ""
