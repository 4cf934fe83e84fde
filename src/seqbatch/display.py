"""Tables and pictures as people see them: on a terminal, on a page, in a notebook.

Whatever shows numbers makes a :class:`Table`, and the command line, a report and a notebook show
the same one. Everything that goes into HTML is escaped here, and nothing in it needs a network.
"""

import base64
import html
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor, isfinite, log10
from typing import Any

#: How many rows of a long table a notebook shows.
MOST_ROWS = 24
#: With the cells, not in a style sheet: many a viewer of notebooks takes style sheets away.
PADDING = "padding: 0.25em 0.75em"


@dataclass(frozen=True)
class Table:
    """Rows under a title; numbers are kept as numbers until they are shown.

    Parameters
    ----------
    title
        What the table is about.
    columns
        The columns' heads.
    rows
        Numbers, words, or None where there is nothing to show.
    words
        The columns of words, which stand on the left and may take several lines; all others are
        numbers, which stand on the right and are never cut.
    keys
        How many of the first columns say what a row is about. A terminal too narrow for the table
        gets several tables, each with these columns.

    Examples
    --------
    >>> Table("Waves", ("wave", "units"), [(1, 4_000), (2, None)]).cells()
    [['1', '4,000'], ['2', '']]
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    words: tuple[str, ...] = ()
    keys: int = 1

    def cells(self) -> list[list[str]]:
        """Return the rows as they are shown."""
        return [[cell(value) for value in row] for row in self.rows]

    def shortened(self, most: int = MOST_ROWS) -> "Table":
        """Return the first and the last rows alone where there are more than `most`."""
        if len(self.rows) <= most:
            return self
        gap = ["…"] * len(self.columns)
        half = most // 2
        return replace(self, rows=[*self.rows[:half], gap, *self.rows[-half:]])

    def html(self) -> str:
        """Return the table as HTML."""
        sides = ["left" if column in self.words else "right" for column in self.columns]
        heads = _row("th", [visible(column) for column in self.columns], sides)
        body = "".join(_row("td", row, sides) for row in self.cells())
        return (
            '<table><caption style="caption-side: top; text-align: left; font-weight: bold; '
            f'{PADDING}">'
            f"{escaped(self.title)}</caption>"
            f"<thead>{heads}</thead><tbody>{body}</tbody></table>"
        )


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text in which nothing acts or hides: what cannot be seen is written out.

    Names, ids and reasons come from files and from people. Control characters move a terminal's
    cursor, marks of direction turn a line around, an XML file cannot hold either; all of them, and
    whatever else is not printable, is shown as Python's repr shows it.

    Parameters
    ----------
    text
        What is to be shown.
    lines
        Whether line breaks and tabs stay as they are.

    Examples
    --------
    >>> print(visible("a\x1b[31mb\u202e"), visible("1\n2"))
    a\x1b[31mb\u202e 1\n2
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text
    )


def cell(value: Any) -> str:
    """Return a value as it is shown in a table.

    >>> cell(1_234_567), cell(0.123456), cell(float("nan")), cell("a word")
    ('1,234,567', '0.12346', '', 'a word')
    """
    if value is None or value != value:  # NaN alone is not equal to itself
        return ""
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def number(value: float, digits: int = 5) -> str:
    """Return a number with this many digits; larger ones are whole and never in powers of ten.

    >>> number(1_234_567.8), number(1_234.56), number(0.0123456), number(12.34, 2)
    ('1,234,568', '1,234.6', '0.012346', '12')
    """
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:,.{digits}g}"


def alike(values: Sequence[float | None], digits: int = 5) -> list[str]:
    """Return the numbers of a column with as many decimals each, the largest with few digits.

    >>> alike([15.625, 9.5, None]), alike([1200.0, 35_000.0]), alike([120.0, 0.0012])
    (['15.625', '9.500', ''], ['1,200', '35,000'], ['120', '0.0012'])
    """
    texts = [cell(value) for value in values]
    known = [abs(value) for value in values if value]
    if not known or any("e" in text for text in texts) or not all(map(isfinite, known)):
        return texts
    decimals = max(len(text.partition(".")[2]) for text in texts)
    decimals = min(decimals, max(digits - 1 - floor(log10(max(known))), 0))
    if min(known) < 10.0**-decimals:
        return texts
    return ["" if value is None else f"{value:,.{decimals}f}" for value in values]


def percent(share: float) -> str:
    """Return a share in percent, with as many digits as it has.

    >>> percent(0.95), percent(0.999), percent(0.975)
    ('95%', '99.9%', '97.5%')
    """
    return f"{100 * share:.4g}%"


def percent_cut(share: float) -> str:
    """Return a share in percent, cut rather than rounded: 94.96% is not 95%.

    >>> percent_cut(0.95), percent_cut(0.9496), percent_cut(0.9999), percent_cut(-0.2)
    ('95%', '94.9%', '99.9%', '0%')
    """
    tenths = floor(round(max(share, 0.0) * 1000, 6))
    return f"{tenths // 10}%" if tenths % 10 == 0 else f"{tenths / 10:.1f}%"


def counted(count: int, what: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "batch"), counted(1_200, "unit")
    ('1 batch', '1,200 units')
    """
    plural = what if count == 1 else what + ("es" if what.endswith("ch") else "s")
    return f"{count:,} {plural}"


def paragraph(text: str) -> str:
    """Return text as a paragraph of HTML, line by line."""
    return f"<p>{'<br>'.join(escaped(line) for line in text.strip().split(chr(10)))}</p>"


#: Nothing is fetched and nothing runs: not even what got in by mistake.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
:root {{ color-scheme: light dark; --ink: #222; --paper: #fff; --line: #ccc; --link: #0b5394;
  --soft: #f3f5f7 }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper); overflow-wrap: break-word }}
h1 {{ font-size: 1.6rem; line-height: 1.25 }}
h2 {{ font-size: 1.25rem; margin-top: 2rem; padding-top: 1rem; border-top: 2px solid var(--line) }}
h3 {{ font-size: 1.05rem; margin-bottom: 0.25rem }}
a {{ color: var(--link) }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }}
th, td {{ border-bottom: 1px solid var(--line); vertical-align: top }}
figure {{ margin: 1rem 0; max-width: 40rem }}
figure img {{ width: 100%; max-height: 36rem; object-fit: contain; object-position: left top }}
figcaption {{ font-size: 0.9rem }}
nav {{ padding: 0.75rem 1rem; background: var(--soft); line-height: 2 }}
nav a {{ margin-right: 1rem; display: inline-block; line-height: 1.4 }}
.first > p:first-of-type {{ font-size: 1.25rem; line-height: 1.4 }}
@media (max-width: 30rem) {{
  body {{ margin: 1rem auto; font-size: 15px }}
  table {{ font-size: 13px }}
  th, td {{ padding: 0.2em 0.4em !important }}
  ul {{ padding-left: 1.2rem }}
}}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6e6e6; --paper: #1a1a1a; --line: #4a4a4a; --link: #8ab8ff; --soft: #262626 }}
  img {{ filter: invert(0.9) hue-rotate(180deg) }}
}}
@media print {{
  @page {{ margin: 16mm }}
  body {{ font-size: 10.5pt; max-width: none; margin: 0; padding: 0 }}
  table {{ display: table; font-size: 8.5pt }}
  thead {{ display: table-header-group }}
  table, tr, figure, li {{ break-inside: avoid }}
  h2, h3, caption {{ break-after: avoid }}
  figure {{ max-width: 13cm }}
  figure img {{ max-height: 11.5cm }}
  nav {{ display: none }}
  .first {{ break-after: page }}
}}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page that a browser opens without a network and that runs no script.

    The title is plain text; the parts are HTML already.
    """
    return PAGE.format(policy=POLICY, title=escaped(title), body="\n".join(parts))


def picture(draw: Callable[[], Any], title: str) -> str:
    """Return a chart as an image inside HTML, or nothing where no chart can be drawn.

    Parameters
    ----------
    draw
        Makes the chart, with Altair, which is imported no sooner than here.
    title
        What is said to those who do not see it.
    """
    file = io.StringIO()
    try:
        draw().save(file, format="svg")
    except ImportError:  # Altair or its converter is not installed
        return ""
    data = base64.b64encode(file.getvalue().encode()).decode()
    # An image, not a part of the page: its names and styles meet no others there.
    return (
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escaped(title)}" '
        'style="max-width: 100%; background: white">'
    )


def shown(
    heading: str,
    tables: Iterable[Table],
    *,
    draw: Callable[[], Any] | None = None,
    remarks: Iterable[str] = (),
) -> str:
    """Return what a notebook shows of an object: heading, picture, tables, remarks."""
    parts = [paragraph(heading)]
    if draw is not None:
        parts.append(picture(draw, heading.partition("\n")[0]))
    parts += [table.shortened().html() for table in tables]
    parts += [paragraph(remark) for remark in remarks]
    return f"<div>{''.join(parts)}</div>"


def escaped(text: str) -> str:
    """Return text that stands in HTML as it is, what cannot be seen written out."""
    return html.escape(visible(text))


def _row(tag: str, values: Sequence[str], sides: Sequence[str]) -> str:
    cells = (
        f'<{tag} style="text-align: {side}; {PADDING}">{html.escape(value)}</{tag}>'
        for value, side in zip(values, sides, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"
