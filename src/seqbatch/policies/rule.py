"""The rule of a batch as plain numbers: what another processor must be told to assign its units.

While a batch is open nothing that decides changes. A policy can therefore hand its rule over, have
the units assigned elsewhere, and take back the sums (:meth:`BasePolicy.absorb`).
"""

from dataclasses import dataclass
from typing import Literal

from seqbatch.core.arrays import Bools, Floats
from seqbatch.policies.choice import Ties


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How the units of an open batch are assigned.

    Parameters
    ----------
    kind
        ``"fixed"``: one action for all. ``"uniform"``: each action as likely. ``"highest"``: the
        highest <x, theta> + gamma |root x|. ``"shares"``: each action with the share of thetas
        under which it is best.
    action
        The action of ``"fixed"``.
    theta
        The parameters, shape (samples, models, dim); one sample unless the kind is ``"shares"``.
    root, gamma
        Widths and their multiplier, for ``"highest"``; None where there are none.
    among
        The actions that may be chosen, shape (K,); None for all.
    ties
        What decides between equals.
    """

    kind: Literal["fixed", "uniform", "highest", "shares"]
    action: int = 0
    theta: Floats | None = None
    root: Floats | None = None
    gamma: float = 0.0
    among: Bools | None = None
    ties: Ties = "lowest"
