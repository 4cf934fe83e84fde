"""How much of capacities and budget is used, and what one more would be worth, in words."""

from dataclasses import dataclass
from typing import Any

from seqbatch.campaign.deciding.limits_left import spent
from seqbatch.campaign.record.situation import Situation
from seqbatch.display import Table, cell

#: Policies whose scores are estimates of the reward, not optimistic bounds on it.
OPTIMISTIC = ("SBUCB", "SupSBUCB", "LinUCB")


@dataclass(frozen=True)
class LimitRow:
    """One limit: of an action, or of the budget.

    Parameters
    ----------
    of
        The action, or "budget".
    within
        "this wave" or "campaign".
    used, at_most, at_least
        Units given so far, or what they cost; the most, None for no limit; and the fewest.
    """

    of: str
    within: str
    used: float
    at_most: float | None
    at_least: float = 0


def limit_rows(now: Situation) -> tuple[LimitRow, ...]:
    """Return every limit of a campaign with what is used of it.

    Those of a wave are left out once all waves are closed: there is none to keep to them.
    """
    rows = []
    given = {now.actions[number].name for number in now.active}
    for name, capacity in now.spec.capacity.items():
        # Nobody gets what was retired: there is no quota of it to reach.
        if name in given and (capacity.each_wave is not None or capacity.at_least):
            used = now.in_wave.get(name, 0)
            rows.append(LimitRow(name, "this wave", used, capacity.each_wave, capacity.at_least))
        if capacity.total is not None:
            rows.append(LimitRow(name, "campaign", now.in_all.get(name, 0), capacity.total))
    if (budget := now.spec.budget) is not None:
        if budget.each_wave is not None:
            cost = spent(now, now.in_wave)
            rows.append(LimitRow("budget", "this wave", cost, budget.each_wave))
        if budget.total is not None:
            rows.append(LimitRow("budget", "campaign", spent(now, now.in_all), budget.total))
    return tuple(row for row in rows if row.within == "campaign" or not now.finished)


def limits_table(rows: tuple[LimitRow, ...]) -> Table:
    """Return the limits as they are shown."""
    shown = [
        (row.of, row.within, cell(row.used), "" if row.at_most is None else cell(row.at_most),
         cell(row.at_least) if row.at_least else "")
        for row in rows
    ]  # fmt: skip
    columns = ("limit of", "within", "used", "at most", "at least")
    return Table("Limits", columns, shown, words=("limit of", "within"), keys=2)


def worth(now: Situation, limits: dict[str, Any] | None) -> list[str]:
    """Say what one more of everything that was short would have been worth, one line each.

    Parameters
    ----------
    now
        Where the campaign stands.
    limits
        What the event of an assignment says of its limits; None where there were none.
    """
    if limits is None:
        return []
    if limits["prices_in"] == "log":
        return _drawn(limits)
    unit = f" {now.spec.reward.unit}" if now.spec.reward.unit else ""
    how = ", by the policy's optimistic scores" if now.policy["kind"] in OPTIMISTIC else ""
    said = []
    for name, price in limits["prices"].items():
        if price > 0:
            said.append(f"{name} is short: one more would be worth {price:.3g}{unit}{how}.")
        elif price < 0:
            said.append(
                f"{name} must be given at least so often: one fewer would be worth "
                f"{-price:.3g}{unit}{how}."
            )
    if limits["budget_price"]:
        said.append(
            f"The budget is short: one more in it would be worth {limits['budget_price']:.3g}"
            f"{unit}{how}."
        )
    return said


def _drawn(limits: dict[str, Any]) -> list[str]:
    """Say which limits changed the chances of actions that were drawn, not chosen by worth."""
    said = []
    for name, price in limits["prices"].items():
        if price > 0:
            said.append(f"{name}: given less often than by the policy, to keep to its limit.")
        elif price < 0:
            said.append(f"{name}: given more often than by the policy, to reach its least number.")
    if limits["budget_price"]:
        said.append("The budget is short: costly actions are given less often than by the policy.")
    return said
