"""The marks of a chart, for tests of what it shows."""


def marks_of(chart, kind):
    """Return all marks of a kind, panel by panel."""
    return [
        mark
        for row in chart.rows
        for panel in row
        for mark in panel.marks
        if isinstance(mark, kind)
    ]


def words_of(chart):
    """Return the texts in a chart's panels."""
    from seqbatch.chart import TextMark

    return [mark.text for mark in marks_of(chart, TextMark)]
