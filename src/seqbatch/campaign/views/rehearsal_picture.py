"""A rehearsal as a chart: what campaigns recommend under each truth, and how often."""

from collections.abc import Mapping
from typing import Any

from seqbatch.pictures import COLOURS, GREY

#: The bar of campaigns that recommend no action.
NONE = "no action"


def draw(data: Mapping[str, Any]) -> Any:
    """Draw one bar for each truth, divided by the recommended action."""
    import altair as alt

    actions = [name for name in data["actions"] if name != data["control"]]
    names, values = [*actions, NONE], []
    for truth in data["truths"]:
        shares = {name: truth["recommended"][name]["share"] for name in actions}
        shares[NONE] = truth["verdicts"]["no action"]["share"]
        values += [
            {"truth": truth["name"], "recommended": name, "share": share, "order": place}
            for place, (name, share) in enumerate(shares.items())
        ]
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(actions))]
    return (
        alt.Chart({"values": values})
        .mark_bar()
        .encode(
            x=alt.X("share:Q", axis=alt.Axis(format="%"), title="share of campaigns",
                    scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("truth:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)),
            color=alt.Color("recommended:N", sort=names, title="recommended",
                            scale=alt.Scale(domain=names, range=[*colours, GREY])),
            order="order:Q",
        )
        .properties(width=480, height=alt.Step(36))
    )  # fmt: skip
