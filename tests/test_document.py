"""Every view is one document, and all of its renderings have the same text."""

import json
from dataclasses import asdict

import pytest
from rich.console import Console

from seqbatch.campaign import Campaign
from seqbatch.cli import console
from seqbatch.document import (
    Document,
    Heading,
    Items,
    Picture,
    Section,
    Table,
    as_html,
    as_json,
    as_markdown,
    as_notebook,
    plain_text,
    require_format,
    write,
)
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning import plan
from seqbatch.storage import open_store
from tests.campaign.instances import SPEC, outcomes, units

PARTS = [
    "A first line.",
    Heading("Why"),
    Items(["one", "two"]),
    Picture(lambda: (_ for _ in ()).throw(ImportError), "a curve that falls"),
    Table("Waves", ("wave", "units"), [(1, 4_000)]),
]
LAST = Section("more", "More", ["A last line."])
DOCUMENT = Document("A title", Section("first", "First", PARTS), [LAST], data={"waves": 1})


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    store = open_store(str(tmp_path_factory.mktemp("store") / "campaigns.db"))
    made = Campaign.create(SPEC, store=store, who="ann")
    made.record(outcomes(made.assign(units(300)).table))
    made.close()
    planned = plan(units=2_000, actions=2, features=1, batches=2, max_batches=2, quick=True)
    yield {"status": made.status(), "findings": made.findings(), "plan": planned}
    store.close()


def one_line(text):
    return " ".join(text.split())


@pytest.fixture
def printed(monkeypatch, capsys):
    """Return what a terminal shows of a document."""

    def show(document):
        monkeypatch.setattr(console, "console", Console(width=200))
        console.present(document)
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize("name", ["status", "findings", "plan"])
def test_every_view_has_the_same_text_in_every_rendering(views, printed, name):
    view = views[name]
    document = view.document()
    assert view._repr_html_() == as_notebook(document)
    told, marked = json.loads(as_json(document)), as_markdown(document)
    assert told["sections"][0]["key"] == name
    on_terminal, page = one_line(printed(document)), as_html(document)
    for part in document.first.parts:
        if isinstance(part, str):
            assert one_line(part) in on_terminal
            assert {"text": part} in told["sections"][0]["parts"]
        if isinstance(part, Table):
            assert part.html() in page
            assert part.title in on_terminal
    assert marked.startswith(f"# {document.title}\n")


def test_the_data_of_a_document_are_those_of_its_view(views):
    assert views["status"].document().data == asdict(views["status"])
    assert views["findings"].document().data == views["findings"].plain()
    assert views["plan"].document().data == views["plan"].as_dict()


def test_a_terminal_shows_the_first_section_without_its_pictures(printed):
    text = printed(DOCUMENT)
    assert text.startswith("A first line.\n\nWhy\n  one\n  two\n")
    assert "4,000" in text
    for left_out in ("A title", "a curve", "A last line."):
        assert left_out not in text


def test_plain_text_has_no_tables():
    assert plain_text(PARTS) == "A first line.\nWhy\n  one\n  two"


def test_a_picture_that_cannot_be_drawn_is_put_into_words():
    assert "<figure><p>a curve that falls</p></figure>" in as_html(DOCUMENT)
    assert "Picture: a curve that falls" in as_markdown(DOCUMENT)


def test_a_page_without_sections_has_no_contents():
    assert "<nav" in as_html(DOCUMENT)
    assert "<nav" not in as_html(Document("A title", DOCUMENT.first))


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [("a.md", None, "md"), ("a.htm", None, "htm"), ("a", "json", "json")],
)
def test_the_format_is_told_by_the_ending_or_asked_for(tmp_path, name, asked, found):
    out = tmp_path / name
    assert require_format(out, file_format=asked) == found
    assert "A first line." in write(DOCUMENT, out, file_format=found).read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "asked"), [("a.pdf", None), ("a.md", "pdf")])
def test_other_formats_are_refused(tmp_path, name, asked):
    with pytest.raises(InvalidArgumentError):
        require_format(tmp_path / name, file_format=asked)
