"""The report of passed checks, and the conversion of unexpected exceptions to check errors."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import getdoc
from textwrap import shorten
from typing import Any, TypeVar

import numpy as np

from seqbatch.display import counted
from seqbatch.document import Table, shown
from seqbatch.errors import RankDeficiencyWarning, SeqbatchError
from seqbatch.policies import registry

Check = Callable[[Any], None]
_Subject = TypeVar("_Subject")


@dataclass(frozen=True)
class CheckReport:
    """The rules that a policy or an environment keeps.

    Parameters
    ----------
    subject
        The policy or environment that was checked.
    scope
        Where it was checked, as the end of a sentence; may be empty.
    rules
        The name of each check, and its rule in one line.
    """

    subject: str
    scope: str
    rules: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, subject: Any, checks: Sequence[Check], *, scope: str = "") -> "CheckReport":
        """Return the report of checks that passed."""
        rules = tuple((check.__name__.removeprefix("check_"), stated(check)) for check in checks)
        return cls(named(subject), scope, rules)

    def tables(self) -> list[Table]:
        """Return the rules as a table."""
        columns = ("check", "rule")
        return [Table(self._heading(), columns, self.rules, words=columns)]

    def __repr__(self) -> str:
        lines = [f"  {name.replace('_', ' ')}: {rule}" for name, rule in self.rules]
        return "\n".join([f"{self._heading()}:", *lines])

    def _repr_html_(self) -> str:
        return shown(self._heading(), self.tables())

    def _heading(self) -> str:
        return f"{self.subject} keeps {counted(len(self.rules), 'rule')}{self.scope}"


def rule(
    error: type[SeqbatchError],
) -> Callable[[Callable[[_Subject], None]], Callable[[_Subject], None]]:
    """Convert any exception inside a check to this error."""

    def decorate(check: Callable[[_Subject], None]) -> Callable[[_Subject], None]:
        @wraps(check)
        def checked(subject: _Subject) -> None:
            with warnings.catch_warnings():
                # Few units cannot determine every model in every layout; ignore that here.
                warnings.simplefilter("ignore", RankDeficiencyWarning)
                try:
                    check(subject)
                except error:
                    raise
                except Exception as raised:
                    raise error(
                        f"{named(subject)}: an exception occurred while checking this rule: "
                        f"{stated(check)} {raised_text(raised)}."
                    ) from raised

        return checked

    return decorate


def stated(check: Check) -> str:
    """Return the rule of a check: the first line of its docstring."""
    return (getdoc(check) or "").partition("\n")[0]


def raised_text(raised: Exception) -> str:
    """Return an exception's type and message, without a final full stop."""
    text = shorten(str(raised), 300, placeholder=" ...").removesuffix(".")
    return f"Raised {type(raised).__name__}: {text}"


def named(subject: Any) -> str:
    """Return the name and parameters of a policy or environment, even if its `repr` fails.

    >>> named(registry.make("SBPE"))
    'SBPE'
    """
    if isinstance(subject, type) or not hasattr(subject, "__dataclass_fields__"):
        return str(getattr(subject, "__name__", type(subject).__name__))
    try:
        described = registry.describe(subject)
        arrays = {
            name: f"array of shape {value.shape}"
            for name, value in described.items()
            if isinstance(value, np.ndarray)
        }
        return registry.text(described | arrays)
    except Exception:  # a parameter that cannot be written out
        return type(subject).__name__


def brief(value: Any) -> str:
    """Return a short description of a value.

    >>> brief(None), brief(np.zeros((2, 3))), brief([1, 2])
    ('None', 'float64 of shape (2, 3)', 'list: [1, 2]')
    """
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    try:
        text = shorten(repr(value), 80, placeholder=" ...")
    except Exception:  # its repr may fail as well
        text = "which cannot be shown"
    return f"{type(value).__name__}: {text}"
