"""A document in parts, whatever it is written as: paragraphs, lists, tables and pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqbatch.display import Table


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
