"""A page about a campaign: what was done, what came back, and one picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqbatch.atomic import atomically
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.views.status import Status
from seqbatch.campaign.views.words import events_table, heading, remarks
from seqbatch.display import page, paragraph, visible
from seqbatch.display import picture as shown
from seqbatch.pictures import COLOURS, save
from seqbatch.targets import require_target

if TYPE_CHECKING:
    import altair as alt


def require_page(out: Path, *, store: Store, force: bool) -> None:
    """Refuse a page that cannot be written, or whose picture cannot."""
    apart = {"the store": store.files}
    require_target(out, force=force, endings=(".html", ".htm"), apart_from=apart)
    require_target(out.with_suffix(".png"), force=force, apart_from=apart)


def write_report(status: Status, events: list[Event], out: Path) -> list[Path]:
    """Write the page and its picture beside it; return the files."""
    chart = picture(status)
    image = save(chart, out.with_suffix(".png"))
    body = [
        paragraph(heading(status)),
        shown(lambda: chart, f"Campaign {status.name}: who got what, and what came back"),
        *(table.html() for table in status.tables()),
        paragraph(_explained(status.control)),
        *map(paragraph, remarks(status)),
        events_table(status.name, events).html(),
        paragraph(
            f"Hash of the last event (kept elsewhere, it shows later that nothing up to here was "
            f"changed): {status.hash}"
        ),
    ]
    with atomically(out) as partial:
        partial.write_text(page(f"Campaign {status.name}", body), encoding="utf-8")
    return [out, image]


def picture(status: Status) -> "alt.HConcatChart":
    """Draw how units were shared out, and what came back, wave by wave."""
    import altair as alt

    names = list(dict.fromkeys(visible(row.action) for row in status.actions))
    rows: list[dict[str, Any]] = [
        {
            "wave": row.wave,
            # An SVG cannot hold control characters.
            "action": visible(row.action),
            "place": names.index(visible(row.action)),
            "units": row.units,
            "mean": row.weighted,
        }
        for row in status.actions
    ]
    base = alt.Chart({"values": rows}).encode(
        color=alt.Color(
            "action:N",
            title=None,
            sort=names,
            scale=alt.Scale(
                domain=names, range=[COLOURS[n % len(COLOURS)] for n in range(len(names))]
            ),
            legend=alt.Legend(orient="top", labelLimit=320),
        )
    )
    shares = base.mark_bar().encode(
        x=alt.X("wave:O", title="wave", axis=alt.Axis(labelAngle=0)),
        y=alt.Y(
            "sum(units):Q", stack="normalize", title="share of units", axis=alt.Axis(format="%")
        ),
        order=alt.Order("place:Q", sort="descending"),
    )
    place = alt.X("wave:O", title="wave", axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("action:N", sort=names)
    seen = base.transform_filter("isValid(datum.mean)")
    means = seen.mark_point(filled=True, size=60).encode(
        x=place,
        xOffset=offset,
        y=alt.Y("mean:Q", title=_axis(status), scale=alt.Scale(zero=False)),
    )
    chart: alt.HConcatChart = alt.hconcat(
        shares.properties(width=240, height=280, title="Who got what"),
        means.properties(width=360, height=280, title="What came back"),
    )
    return chart


def _axis(status: Status) -> str:
    """Name the numbers of the second picture, with their unit."""
    unit = "" if status.unit is None else f" ({visible(status.unit)})"
    return f"weighted mean outcome{unit}"


def _explained(control: str | None) -> str:
    """Say what the means are."""
    said = (
        "The weighted mean is what the outcome would be if every unit of the wave got the action, "
        "by the logged probabilities. It is left out where some units could not get the action. "
        "Absent units count as declared, and an action's cost is taken off (added, where less is "
        "better). Intervals that hold are in the campaign's findings."
    )
    if control is None:
        return said
    return (
        f"{said} Minus control: the weighted mean minus that of {control} in the same wave, where "
        "both are known."
    )
