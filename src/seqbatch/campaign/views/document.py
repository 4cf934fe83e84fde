"""A document: paragraphs, lists, tables and pictures, written as HTML, Markdown or JSON."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.findings_text import with_sections
from seqbatch.display import Table, escaped, page, paragraph, picture, visible

# ----------------------------------------------------------------------
# A document in parts, whatever it is written as: paragraphs, lists, tables and pictures.


@dataclass(frozen=True)
class Heading:
    """A title within a section."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of short paragraphs."""

    items: Sequence[str]


@dataclass(frozen=True)
class Picture:
    """A chart.

    Parameters
    ----------
    draw
        Makes the chart, with Altair, which is imported no sooner than there.
    words
        What it shows, in words, for those who do not see it.
    caption
        What stands below it.
    """

    draw: Callable[[], Any]
    words: str
    caption: str = ""


#: A string is a paragraph.
Part = str | Heading | Items | Table | Picture


@dataclass(frozen=True)
class Section:
    """A part of a document with a title; `key` is what links and scripts call it."""

    key: str
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Document:
    """A document.

    Parameters
    ----------
    title
        What it is about.
    first
        What everybody reads: a screen, or a printed page.
    sections
        All the rest.
    data
        The numbers behind it, as plain values.
    """

    title: str
    first: Section
    sections: Sequence[Section]
    data: dict[str, Any] = field(default_factory=dict)


# ----------------------------------------------------------------------
# A document as a page, as Markdown, and as JSON. Whatever comes from people is escaped here.


#: What would act in Markdown, or in the HTML that is made of it.
ACTING = re.compile(r"([\\`*_\[\]|~#$])")
#: What would begin a list or a quotation.
BEGINNING = re.compile(r"^(\s*)([-+=>]|\d+[.)])(?=\s|$)")


def as_html(document: Document) -> str:
    """Return a page that opens without a network and runs no script."""
    links = "".join(f'<a href="#{one.key}">{escaped(one.title)}</a> ' for one in document.sections)
    return page(
        document.title,
        [
            _html_section(document.first, kind="first"),
            f'<nav aria-label="Sections">{links}</nav>',
            *map(_html_section, document.sections),
        ],
    )


def _html_section(section: Section, *, kind: str = "more") -> str:
    # The first section stands right below the page's title, and needs none.
    head = "" if kind == "first" else f"<h2>{escaped(section.title)}</h2>"
    parts = "\n".join(map(_html, section.parts))
    return f'<section id="{section.key}" class="{kind}">{head}\n{parts}\n</section>'


def _html(part: Part) -> str:
    if isinstance(part, str):
        return paragraph(part)
    if isinstance(part, Heading):
        return f"<h3>{escaped(part.text)}</h3>"
    if isinstance(part, Items):
        return f"<ul>{''.join(f'<li>{escaped(item)}</li>' for item in part.items)}</ul>"
    if isinstance(part, Table):
        return part.html()
    drawn = picture(part.draw, part.words) or paragraph(part.words)
    caption = f"<figcaption>{escaped(part.caption)}</figcaption>" if part.caption else ""
    return f"<figure>{drawn}{caption}</figure>"


def as_markdown(document: Document) -> str:
    """Return Markdown, with tables as GitHub writes them; pictures are put into words."""
    lines = [f"# {_marked(document.title)}", *_markdown_parts(document.first)]
    for section in document.sections:
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
    if isinstance(part, Picture):
        said = f"Picture: {part.words}"
        return _marked(f"{said} {part.caption}" if part.caption else said)
    sides = ["---" if column in part.words else "---:" for column in part.columns]
    rows = [[_marked(column) for column in part.columns], sides]
    rows += [[_marked(cell) for cell in row] for row in part.cells()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{_marked(part.title)}**\n\n{table}"


def _marked(text: str) -> str:
    r"""Return text that Markdown shows as it is.

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
    """Return what the page says, section by section, with the numbers behind it."""
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
    if isinstance(part, Picture):
        return {"picture": part.words, "caption": part.caption}
    return {"table": part.title, "columns": list(part.columns), "rows": part.cells()}


#: How a document is written, by the ending of its file.
FORMATS: dict[str, Callable[[Document], str]] = {
    "html": as_html,
    "htm": as_html,
    "md": as_markdown,
    "json": as_json,
}


# ----------------------------------------------------------------------
# Where the tables of findings stand in a report.


def placed(found: Findings) -> dict[str, list[Table]]:
    """Return the tables of findings by the section in which they stand."""
    made: dict[str, list[Table]] = defaultdict(list)
    for section, table in with_sections(found):
        made[section].append(table)
    return made
