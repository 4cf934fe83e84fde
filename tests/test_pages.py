"""Pages: all that is given as text is shown as text."""

from seqbatch import pages


def test_text_is_escaped_wherever_it_stands():
    hostile = "<script>alert('&')</script>"
    made = pages.page(
        hostile, [pages.paragraphs(hostile), pages.table(hostile, [hostile], [[hostile]])]
    )
    assert "<script" not in made
    assert made.count("&lt;script&gt;") == 6
