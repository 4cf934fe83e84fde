"""Messages are values; Python, the command line, HTTP and the pages each render remedies."""

import pickle
from typing import get_args

import pytest

from seqbatch.cli.messages import COMMANDS, About, in_options, remedy_command, remedy_commands
from seqbatch.errors import (
    Action,
    CampaignStateError,
    Doubt,
    InvalidArgumentError,
    InvalidFileError,
    InvalidSpecError,
    OutputError,
    Remedy,
    RowProblem,
    SeqbatchError,
    StoreError,
    in_python,
    told,
)
from seqbatch.service.pages.rendering import on_pages
from seqbatch.service.problems import in_calls

FORMAT = "1.234,56"
#: Each remedy that there is, and its words in Python, at the command line, in calls, on pages.
WORDS = [
    (Remedy("draw"), (" (draw=True)", " (--draw)", " (draw = true)", "")),
    (Remedy("key"), (" (key=...)", " (--key FILE)", "", "")),
    (Remedy("partial"), (" (partial=True)", " (--partial)", " (partial = true)", "")),
    (Remedy("overwrite"), (" (force=True).", " (--force).", ".", ".")),
    (Remedy("force"), (
        " If that is intended, add force=True.", " If that is intended, add --force.",
        " If that is intended, add force = true.", "",
    )),
    (Remedy("close", force=True, reason=...), (
        ": force=True, with a reason=...", ": --force, with a --reason.",
        ": force = true, with a reason.", ", below.",
    )),
    (Remedy("record-sums", sums=..., force=True, reason=...), (
        ": force=True, with a reason=...", ": --force, with a --reason.",
        ": force = true, with a reason.", ", below.",
    )),
    (Remedy("delete", force=True, reason="a trial"), (
        ": force=True.", ": --force.", ": force = true.", ".",
    )),
    (Remedy("record", equal_rows="keep"), (
        " (equal_rows='keep')", " (--equal-rows keep)", ' (equal_rows = "keep")', " (below)",
    )),
    (Remedy("dedupe", dedupe="last"), (
        ': dedupe="last" (or "first", or "newest-by COLUMN").',
        ": --dedupe last (or first, or newest-by COLUMN).",
        ': dedupe = "last" (or "first", or "newest-by COLUMN").',
        ", below.",
    )),
    (Remedy("skip-rows", skip_rows=3), (
        ": skip_rows=3.", ": --skip-rows 3.", ": skip_rows = 3.",
        ", below.",
    )),
    (Remedy("delimiter", delimiter=";"), ("", "", "", "")),
    (Remedy("abort", reason=...), ("", "", "", "")),
    (Remedy("stop", reason=...), ("", "", "", "")),
    (Remedy("continue", reason=...), (" (go_on)", "", "", "")),
    (Remedy("look", key=..., out=...), ("", "", "", "")),
    (Remedy("init"), ("", " To write one: seqbatch campaign init", "", "")),
    (Remedy("sql", what="assign", units=..., assignments=..., write=True), ("", "", "", "")),
    (Remedy("amend", metrics={"visit": {"format": FORMAT}}, reason=...), (
        " amend(metrics={'visit': {'format': '1.234,56'}}, reason=...)",
        " seqbatch campaign amend spring --metric visit.format=1.234,56 --reason 'YOUR REASON'",
        ' an amendment with metrics {"visit": {"format": "1.234,56"}} and a reason',
        ' a change of the format of visit to "1.234,56" (with a reason)',
    )),
    (Remedy("amend", metrics={"net sales": {"absent": 0}, "x": {"rows": "any"}}, reason=...), (
        " amend(metrics={'net sales': {'absent': 0}, 'x': {'rows': 'any'}}, reason=...)",
        " seqbatch campaign amend spring --metric 'net sales.absent=0' --metric x.rows=any "
        "--reason 'YOUR REASON'",
        ' an amendment with metrics {"net sales": {"absent": 0}, "x": {"rows": "any"}} and a '
        "reason",
        ' a change of the absent of net sales to "0", the rows of x to "any" (with a reason)',
    )),
]  # fmt: skip
#: The commands of those that are commands.
PASTED = {
    "close": "close spring --force --reason 'YOUR REASON'",
    "record-sums": "record-sums spring SUMS --force --reason 'YOUR REASON'",
    "delete": "delete spring --force --reason 'a trial'",
    "abort": "abort spring --reason 'YOUR REASON'",
    "stop": "stop spring --reason 'YOUR REASON'",
    "continue": "continue spring --reason 'YOUR REASON'",
    "look": "look spring --key YOUR.key --out closed-report.html",
    "sql": "sql spring --what assign --units YOUR_TABLE --assignments YOUR_ASSIGNMENTS --write",
}
SPRING = About("spring", "campaigns.db")


def test_every_remedy_has_words_everywhere():
    assert {remedy.action for remedy, _ in WORDS} == set(get_args(Action))


@pytest.mark.parametrize(("remedy", "words"), WORDS)
def test_a_remedy_in_the_words_of_whoever_reads_it(remedy, words):
    found = (in_python(remedy), in_options(remedy, SPRING), in_calls(remedy), on_pages(remedy))
    assert found == words


@pytest.mark.parametrize("remedy", [remedy for remedy, _ in WORDS])
def test_a_remedy_as_a_command(remedy, monkeypatch):
    monkeypatch.delenv("SEQBATCH_STORE", raising=False)
    pasted = remedy_commands([remedy], SPRING)
    assert bool(pasted) == (remedy.action in COMMANDS)
    assert remedy_commands([remedy], None) == []
    if remedy.action in PASTED:
        assert pasted == [f"seqbatch campaign {PASTED[remedy.action]}"]
    if remedy.action == "amend":
        assert pasted == [in_options(remedy, SPRING).strip()]


def test_sums_that_are_still_to_be_recorded_are_not_forced():
    remedy = Remedy("record-sums", sums=..., statement=...)
    found = (in_python(remedy), in_options(remedy, SPRING), in_calls(remedy), on_pages(remedy))
    assert found == ("", "", "", "")


def test_a_dollar_is_quoted_for_shells():
    remedy = Remedy("amend", metrics={"visit": {"format": "($1,234.56)"}}, reason=...)
    assert "--metric 'visit.format=($1,234.56)'" in remedy_command(remedy, SPRING)


def test_an_error_carries_its_refusal():
    error = CampaignStateError("full; or draw", Remedy("draw"), ".", code="wave-full")
    assert str(error) == "full; or draw (draw=True)."
    assert (error.code, error.field, error.remedies) == ("wave-full", "", (Remedy("draw"),))
    assert told(error.refusal.parts, in_calls) == "full; or draw (draw = true)."
    assert CampaignStateError("no").code == "wrong-state"


def test_an_argument_is_named_as_it_is_typed():
    error = InvalidArgumentError("draws", "few", 3, "Use fewer.", remedies=[Remedy("force")])
    assert error.field == "draws"
    assert str(error) == (
        "draws must be few; received 3. Use fewer. If that is intended, add force=True."
    )
    assert error.refusal.text(in_options, lambda name: f"--{name}") == (
        "--draws must be few; received 3. Use fewer. If that is intended, add --force."
    )


@pytest.mark.parametrize(
    "error",
    [
        SeqbatchError("no"),
        InvalidArgumentError("a", "b", 1, field="c", code="d", remedies=[Remedy("force")]),
        CampaignStateError("no", Remedy("draw"), code="wave-full", remedies=[Remedy("partial")]),
        InvalidSpecError.at(("grid", "sizes"), "wrong"),
        InvalidFileError(
            "f", [RowProblem(1, "age", "odd", "invalid")], place="line", remedies=[Remedy("force")]
        ),
        StoreError("down", code="gone"),
        OutputError("disk full", Remedy("overwrite")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.refusal) == (str(error), error.refusal)


def test_a_doubt_is_plain_without_its_words():
    spelled = {"sales": {"format": FORMAT}}
    parts = ("sales can be read after", Remedy("amend", metrics=spelled, reason=...), ".")
    doubt = Doubt("other-format", parts, column="sales", rows=3, examples=(FORMAT,))
    assert doubt.text() == f"sales can be read after amend(metrics={spelled}, reason=...)."
    assert doubt.plain() == {
        "kind": "other-format", "column": "sales", "rows": 3, "examples": [FORMAT],
        "remedies": [
            {"action": "amend", "options": {"metrics": spelled, "reason": None}},
        ],
    }  # fmt: skip
