"""The colours of all pictures: Okabe and Ito's, which colour-blind readers can tell apart."""

COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000",
    "#999999", "#B8B800",
)  # fmt: skip
BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], COLOURS[8]
