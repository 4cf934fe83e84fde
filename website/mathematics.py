"""Formulas become MathML when the site is built, so that pages need no script to show them.

A formula in a line stands between dollar signs, a displayed one between double dollar signs in a
paragraph of its own. Code is left alone.
"""

from re import Match
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from mkdocs.config.defaults import MkDocsConfig


class Formula(InlineProcessor):
    """Turns what stands between dollar signs into MathML."""

    def __init__(self, pattern: str, md: Markdown, display: str) -> None:
        super().__init__(pattern, md)
        self.display = display

    def handleMatch(self, m: Match[str], data: str) -> tuple[str | Element, int, int]:  # noqa: N802, ARG002
        """Keep the MathML aside, where no other rule touches it."""
        return self.md.htmlStash.store(convert(m[1], display=self.display)), m.start(0), m.end(0)


class Mathematics(Extension):
    """Formulas between dollar signs."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Come after code (190), which may hold dollar signs, and before escapes (180)."""
        block, line = r"\$\$(.+?)\$\$", r"(?<![\\$])\$(?![\s$])([^$\n]+?)(?<![\s\\])\$"
        md.inlinePatterns.register(Formula("(?s)" + block, md, "block"), "formula-block", 186)
        md.inlinePatterns.register(Formula(line, md, "inline"), "formula", 185)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the extension to those of mkdocs.yml."""
    config.markdown_extensions.append(Mathematics())
    return config
