"""Documents of paragraphs, lists, tables and charts, for terminals, web pages and notebooks.

Every view of a campaign and every plan is a :class:`Document`. The same document becomes an HTML
page, Markdown, JSON, a notebook's output, or lines on a terminal. All text from files and users is
escaped here, and a page needs no network.
"""

import base64
import csv
import html
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from seqbatch.chart import Drawable
from seqbatch.display import cell, visible
from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import atomically, require_target

#: How many rows of a long table a notebook shows.
MOST_ROWS = 24
#: Longer labels of facts stand on their own line.
WIDEST_LABEL = 32
#: Set on every cell, because many notebook viewers remove style sheets.
PADDING = "padding: 0.25em 0.75em"


# ----------------------------------------------------------------------
# The parts of a document.


@dataclass(frozen=True)
class Table:
    """Rows under a title; numbers are kept as numbers until they are shown.

    Parameters
    ----------
    title
        What the table is about.
    columns
        The column headings.
    rows
        Numbers, text, or None for an empty cell.
    words
        The text columns, which are left-aligned and may wrap. All others hold numbers, which are
        right-aligned and never wrap.
    keys
        How many of the first columns identify the row. On a terminal too narrow for the table, it
        is split into several tables, each with these columns.

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

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return _library("pandas").DataFrame(rows, columns=list(self.columns))

    def to_polars(self) -> Any:
        """Return the table as a Polars data frame."""
        return _library("polars").DataFrame(self._by_column(), strict=False)

    def to_arrow(self) -> Any:
        """Return the table as an Arrow table."""
        return _library("pyarrow", "to_arrow").table(self._by_column())

    def _by_column(self) -> dict[str, list[Any]]:
        return {name: [row[n] for row in self.rows] for n, name in enumerate(self.columns)}

    def to_csv(self, path: str | Path) -> Path:
        """Write the table to a CSV file, with numbers in full; return the file."""
        with (
            atomically(Path(path)) as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)
        return Path(path)

    def to_latex(self) -> str:
        r"""Return the table as LaTeX, with the rules of the package booktabs and text escaped.

        >>> print(Table("T", ("policy", "won"), [("A_1", 0.5)], words=("policy",)).to_latex())
        \begin{tabular}{lr}
        \toprule
        policy & won \\
        \midrule
        A\_1 & 0.5 \\
        \bottomrule
        \end{tabular}
        """
        sides = "".join("l" if column in self.words else "r" for column in self.columns)
        head, *body = (
            " & ".join(map(_in_latex, row)) + r" \\" for row in (self.columns, *self.cells())
        )
        lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *body]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def __str__(self) -> str:
        """Return the table as lines of text, with its title.

        >>> print(Table("T", ("policy", "won"), [("A", 10), ("B", None)], words=("policy",)))
        T
        policy  won
        A        10
        B
        """
        rows = [list(self.columns), *self.cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) if name in self.words else text.rjust(width)
                for name, text, width in zip(self.columns, row, widths, strict=True)
            )
            for row in rows
        ]
        return "\n".join([visible(self.title), *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        return self.shortened().html()

    def cells(self) -> list[list[str]]:
        """Return the rows as text."""
        return [[cell(value) for value in row] for row in self.rows]

    def shortened(self, most: int = MOST_ROWS) -> "Table":
        """Return only the first and the last rows if there are more than `most`."""
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


def _library(name: str, method: str | None = None) -> ModuleType:
    """Return a library of data frames; say what to install where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise InvalidArgumentError(
            method or f"to_{name}", f"called where {name} is installed", f"no module named {name}",
            f"Install it with: pip install {name}.", code="not-installed",
        ) from None  # fmt: skip


#: Characters that are markup in LaTeX.
LATEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$",
}  # fmt: skip


def _in_latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)


class Frames:
    """What has tables, as a data frame of one of three libraries: its first table."""

    def tables(self) -> list[Table]:
        """Return the tables."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return the first table as a pandas data frame."""
        return self.tables()[0].to_pandas()

    def to_polars(self) -> Any:
        """Return the first table as a Polars data frame."""
        return self.tables()[0].to_polars()

    def to_arrow(self) -> Any:
        """Return the first table as an Arrow table."""
        return self.tables()[0].to_arrow()


@dataclass(frozen=True)
class Heading:
    """A title within a section."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of short paragraphs."""

    items: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Short texts, each with its label."""

    items: Sequence[tuple[str, str]]

    def lines(self, width: int = 80) -> list[str]:
        """Return the labels in one column and the texts, wrapped, beside them.

        >>> print(*Facts([("Who", "all customers"), ("Sure", "very")]).lines(), sep=chr(10))
        Who   all customers
        Sure  very
        """
        indent = 2 + min(max(len(label) for label, _ in self.items), WIDEST_LABEL)
        made = []
        for label, text in self.items:
            first, *more = textwrap.wrap(text, max(width - indent, 20)) or [""]
            label = visible(label)
            if len(label) + 2 > indent:
                made.append(label)
                label = ""
            made += [f"{label:{indent}}{first}", *(" " * indent + line for line in more)]
        return made


@dataclass(frozen=True)
class Picture:
    """A chart.

    Parameters
    ----------
    draw
        Draws the chart.
    words
        The chart in words, for readers who cannot see it.
    caption
        The text below the chart.
    """

    draw: Callable[[], Drawable]
    words: str
    caption: str = ""


#: A string is a paragraph.
Part = str | Heading | Items | Facts | Table | Picture


@dataclass(frozen=True)
class Section:
    """A titled part of a document; `key` is its name in links and JSON."""

    key: str
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Document:
    """A document.

    Parameters
    ----------
    title
        The title of the page or file. Terminals and notebooks do not show it.
    first
        The first screen or printed page; terminals and notebooks show this section only.
    sections
        The other sections.
    appendix
        Whether the other sections are an appendix: a page shows it on demand, and prints it only
        if it is shown. None if they always follow.
    data
        The numbers behind the document, as plain values.
    """

    title: str
    first: Section
    sections: Sequence[Section] = ()
    data: dict[str, Any] = field(default_factory=dict)
    appendix: bool | None = None


def plain_text(parts: Iterable[Part]) -> str:
    """Return parts as plain text, without tables and pictures."""
    return "\n".join(line for part in parts for line in part_lines(part))


def part_lines(part: Part) -> list[str]:
    """Return a part as lines of plain text; tables and pictures give no lines.

    >>> part_lines(Items(["first", "second"]))
    ['  first', '  second']
    """
    if isinstance(part, str):
        return [part]
    if isinstance(part, Heading):
        return [part.text]
    if isinstance(part, Facts):
        return part.lines()
    return [f"  {item}" for item in part.items] if isinstance(part, Items) else []


# ----------------------------------------------------------------------
# HTML: pages and notebooks.


#: The page's security policy: it loads nothing and runs nothing.
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
dl.facts {{ display: grid; grid-template-columns: minmax(9rem, max-content) 1fr; gap: 0.3rem 1.5rem;
  margin: 1rem 0 }}
dl.facts div {{ display: contents }}
dl.facts dt {{ font-weight: 600; max-width: 18rem }}
dl.facts dd {{ margin: 0 }}
.first.decision > p:first-of-type {{ font-size: 1rem; margin-top: -0.5rem }}
.decision > h3 {{ font-size: 1.5rem; line-height: 1.3; margin: 0.75rem 0 0.25rem }}
.decision > p {{ margin: 0.25rem 0 }}
.decision > figure {{ display: inline-block; vertical-align: top; width: 48%; margin: 0 1% 0 0 }}
summary {{ cursor: pointer; margin-top: 1.5rem; color: var(--link) }}
nav {{ padding: 0.75rem 1rem; background: var(--soft); line-height: 2 }}
nav a {{ margin-right: 1rem; display: inline-block; line-height: 1.4 }}
.first > p:first-of-type {{ font-size: 1.25rem; line-height: 1.4 }}
@media (max-width: 30rem) {{
  body {{ margin: 1rem auto; font-size: 15px }}
  table {{ font-size: 13px }}
  th, td {{ padding: 0.2em 0.4em !important }}
  ul {{ padding-left: 1.2rem }}
  dl.facts {{ grid-template-columns: 1fr; gap: 0 }}
  dl.facts dd {{ margin-bottom: 0.5rem }}
  .decision > figure {{ display: block; width: auto; margin: 1rem 0 }}
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
  .first, .appendix:not([open]) {{ break-after: page }}
  .decision:has(+ .appendix:not([open])) {{ break-after: auto }}
  .appendix > summary {{ display: none }}
}}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a page that opens without a network and runs no script.

    The title is plain text; the parts must be HTML.
    """
    return PAGE.format(policy=POLICY, title=escaped(title), body="\n".join(parts))


def as_html(document: Document) -> str:
    """Return a page that opens without a network and runs no script."""
    return page(
        document.title,
        [
            _html_section(
                document.first, kind="first" if document.appendix is None else "first decision"
            ),
            *_html_rest(document),
        ],
    )


def _html_rest(document: Document) -> list[str]:
    """Return the other sections, inside an element that opens on demand if they are an appendix."""
    rest = [*_contents(document.sections), *map(_html_section, document.sections)]
    if document.appendix is None:
        return rest
    shown = " open" if document.appendix else ""
    summary = "<summary>Appendix: methods, tables and audit</summary>"
    return [f'<details class="appendix"{shown}>{summary}', *rest, "</details>"]


def _contents(sections: Sequence[Section]) -> list[str]:
    """Return links to the sections."""
    links = "".join(f'<a href="#{one.key}">{escaped(one.title)}</a> ' for one in sections)
    return [f'<nav aria-label="Sections">{links}</nav>'] if sections else []


def _html_section(section: Section, *, kind: str = "more") -> str:
    # The first section comes right after the page's title, so its own title is left out.
    head = "" if kind.startswith("first") else f"<h2>{escaped(section.title)}</h2>"
    parts = "\n".join(map(_html, section.parts))
    return f'<section id="{section.key}" class="{kind}">{head}\n{parts}\n</section>'


def as_notebook(document: Document) -> str:
    """Return the first section as HTML for a notebook, with long tables shortened."""
    return _notebook(document.first.parts)


def shown(
    heading: str, tables: Iterable[Table], *, draw: Callable[[], Drawable] | None = None
) -> str:
    """Return a heading, a chart and tables as HTML for a notebook."""
    drawn = [] if draw is None else [Picture(draw, heading.partition("\n")[0])]
    return _notebook([heading, *drawn, *tables])


def _notebook(parts: Iterable[Part]) -> str:
    made = (part.shortened() if isinstance(part, Table) else part for part in parts)
    return f"<div>{''.join(map(_html, made))}</div>"


def _html(part: Part) -> str:
    if isinstance(part, str):
        return paragraph(part)
    if isinstance(part, Heading):
        return f"<h3>{escaped(part.text)}</h3>"
    if isinstance(part, Items):
        return f"<ul>{''.join(f'<li>{escaped(item)}</li>' for item in part.items)}</ul>"
    if isinstance(part, Facts):
        told = (
            f"<div><dt>{escaped(label)}</dt><dd>{escaped(text)}</dd></div>"
            for label, text in part.items
        )
        return f'<dl class="facts">{"".join(told)}</dl>'
    if isinstance(part, Table):
        return part.html()
    drawn = picture(part.draw, part.words) or paragraph(part.words)
    caption = f"<figcaption>{escaped(part.caption)}</figcaption>" if part.caption else ""
    return f"<figure>{drawn}{caption}</figure>"


def paragraph(text: str) -> str:
    """Return text as a paragraph of HTML, line by line."""
    return f"<p>{'<br>'.join(escaped(line) for line in text.strip().split(chr(10)))}</p>"


def picture(draw: Callable[[], Drawable], title: str) -> str:
    """Return a chart as an image inside HTML, or "" if what draws it is not installed.

    Parameters
    ----------
    draw
        Draws the chart.
    title
        The image's alternative text.
    """
    source = image(draw)
    style = "max-width: 100%; background: white"
    return source and f'<img src="{source}" alt="{escaped(title)}" style="{style}">'


def image(draw: Callable[[], Drawable]) -> str:
    """Return a chart as a `data:` address of an SVG, or "" if what draws it is not installed."""
    try:
        text = draw().svg()
    except ImportError:  # charts of the lab need Altair
        return ""
    # An image, not inline SVG: its ids and styles cannot clash with those of the page.
    return f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}"


def escaped(text: str) -> str:
    """Return text for HTML: markup is escaped, and invisible characters are written out."""
    return html.escape(visible(text))


def _row(tag: str, values: Sequence[str], sides: Sequence[str]) -> str:
    cells = (
        f'<{tag} style="text-align: {side}; {PADDING}">{html.escape(value)}</{tag}>'
        for value, side in zip(values, sides, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


# ----------------------------------------------------------------------
# Markdown and JSON.


#: Characters that are markup in Markdown, or in the HTML generated from it.
ACTING = re.compile(r"([\\`*_\[\]|~#$])")
#: The start of a list item or a quotation.
BEGINNING = re.compile(r"^(\s*)([-+=>]|\d+[.)])(?=\s|$)")


def as_markdown(document: Document) -> str:
    """Return Markdown, with tables in GitHub's syntax, and text in place of pictures.

    An appendix that is not shown is left out.
    """
    lines = [f"# {_marked(document.title)}", *_markdown_parts(document.first)]
    for section in () if document.appendix is False else document.sections:
        lines += [f"## {_marked(section.title)}", *_markdown_parts(section)]
    return "\n\n".join(lines) + "\n"


def _markdown_parts(section: Section) -> list[str]:
    return [_markdown(part) for part in section.parts]


def _markdown(part: Part) -> str:
    if isinstance(part, str):
        return "  \n".join(map(_marked, part.strip().split("\n")))
    if isinstance(part, Heading):
        return f"### {_marked(part.text)}"
    if isinstance(part, Items):
        return "\n".join(f"- {_marked(item)}" for item in part.items)
    if isinstance(part, Facts):
        return "\n".join(f"- **{_marked(label)}** {_marked(text)}" for label, text in part.items)
    if isinstance(part, Picture):
        said = f"Picture: {part.words}"
        return _marked(f"{said} {part.caption}" if part.caption else said)
    sides = ["---" if column in part.words else "---:" for column in part.columns]
    rows = [[_marked(column) for column in part.columns], sides]
    rows += [[_marked(cell) for cell in row] for row in part.cells()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{_marked(part.title)}**\n\n{table}"


def _marked(text: str) -> str:
    r"""Return text with its markup escaped.

    >>> print(_marked("a_b | <b>"), _marked("- x"))
    a\_b \| &lt;b&gt; \- x
    """
    plain = ACTING.sub(r"\\\1", visible(text))
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return BEGINNING.sub(_held_back, plain)


def _held_back(found: re.Match[str]) -> str:
    space, mark = found.groups()
    return f"{space}{mark[:-1]}\\{mark[-1]}"


def as_json(document: Document) -> str:
    """Return the page's sections, and the numbers behind them, as JSON."""
    told = {
        "title": document.title,
        "sections": [_json_section(one) for one in (document.first, *document.sections)],
        **document.data,
    }
    return json.dumps(told, indent=1, allow_nan=False) + "\n"


def _json_section(section: Section) -> dict[str, Any]:
    parts = [_json(part) for part in section.parts]
    return {"key": section.key, "title": section.title, "parts": parts}


def _json(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    if isinstance(part, Heading):
        return {"heading": part.text}
    if isinstance(part, Items):
        return {"items": list(part.items)}
    if isinstance(part, Facts):
        return {"facts": [{"label": label, "text": text} for label, text in part.items]}
    if isinstance(part, Picture):
        return {"picture": part.words, "caption": part.caption}
    return {"table": part.title, "columns": list(part.columns), "rows": part.cells()}


# ----------------------------------------------------------------------
# Files.


#: The writer of each format, by file extension.
FORMATS: dict[str, Callable[[Document], str]] = {
    "html": as_html,
    "htm": as_html,
    "md": as_markdown,
    "json": as_json,
}


def require_format(
    out: Path,
    *,
    force: bool = False,
    file_format: str | None = None,
    apart_from: Mapping[str, Iterable[str | Path]] | None = None,
) -> str:
    """Return the format of a document's file; refuse a file that cannot be written."""
    if file_format is not None and file_format not in FORMATS:
        raise InvalidArgumentError("file_format", f"one of {', '.join(FORMATS)}", file_format)
    endings = () if file_format else tuple(f".{ending}" for ending in FORMATS)
    require_target(out, force=force, endings=endings, apart_from=apart_from)
    return file_format or out.suffix.lower().removeprefix(".")


def write(document: Document, out: Path, *, file_format: str, private: bool = False) -> Path:
    """Write a document to a file, completely or not at all; return the file.

    If it is private, only its owner may read it, at any time.
    """
    text = FORMATS[file_format](document)
    with atomically(out, private=private) as partial:
        partial.write_text(text, encoding="utf-8")
    return out
