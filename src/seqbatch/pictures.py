"""The colours of all charts: one for each policy, and those of actions."""

#: The colour-blind-safe palette of Okabe and Ito, and a few more.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000",
    "#999999", "#B8B800",
)  # fmt: skip
#: For bounds, and for the background.
INK, GREY = "#222222", "#777777"
#: A policy has the same colour in every picture.
POLICIES = {
    "SBUCB": "#0072B2",
    "LinUCB": "#E69F00",
    "SupSBUCB": "#CC79A7",
    "SBPE": "#009E73",
    "BPE": "#D55E00",
    "RBGL": "#56B4E9",
    "LBGL": "#8C6D31",
    "ThompsonSampling": "#7B3294",
    "Lookahead": "#1B4F9C",
    "JointRidge": "#2CA58D",
    "EpsilonGreedy": "#B8B800",
    "UniformRandom": "#999999",
    "FixedAction": "#5E5E5E",
    "Oracle": "#000000",
}
#: All other policies, including yours; markers and dashes distinguish them.
OTHER = "#B2182B"


def policy_colour(name: str) -> str:
    """Return the colour of a policy, by the name of its class.

    >>> policy_colour("SBPE"), policy_colour("MyPolicy")
    ('#009E73', '#B2182B')
    """
    return POLICIES.get(name, OTHER)
