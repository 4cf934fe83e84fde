"""Rows that are no units are named, and ordinary rows are never taken for such."""

import polars as pl
import pyarrow as pa
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.files import profile
from seqbatch.campaign.spec.template import first_spec
from seqbatch.errors import InvalidFileError
from seqbatch.storage import open_store
from tests.campaign.specs import about
from tests.refusals import places, refused

SPEC = {
    "name": "spring",
    "unit": "customer",
    "actions": ["none", "mail"],
    "grid": {"sizes": [100]},
    **about("visit"),
    "features": {
        "numeric": {"orders": "raw"},
        "categorical": {"city": {"hash": 4, "missing": "level"}},
    },
}


def proposed(tmp_path, text):
    path = tmp_path / "units.csv"
    path.write_text(text, encoding="utf-8")
    return first_spec(path).draft


def refusal(tmp_path, text):
    with pytest.raises(InvalidFileError) as raised:
        proposed(tmp_path, text)
    return places(raised.value)


def rows(*more, header="customer,orders,city"):
    return "\n".join([header, "a,3,Oslo", "b,3,Rome", "c,5,Oslo", *more]) + "\n"


@pytest.fixture
def campaign(tmp_path):
    store = open_store(tmp_path / "campaigns.db")
    yield Campaign.create(SPEC, store=store)
    store.close()


@pytest.mark.parametrize("word", ["Total", "SUMME", "gesamt", "Grand  total", "Total: Account"])
@pytest.mark.parametrize("city", ["", "--", "n/a"])
def test_totals_are_named_by_init_and_by_assign(tmp_path, campaign, word, city):
    text = rows(f"{word},11,{city}")
    assert refusal(tmp_path, text) == [(5, "customer", "totals-row")]
    with refused("invalid-rows", row=5, column="customer", problem="totals-row"):
        campaign.assign(tmp_path / "units.csv")
    assert campaign.situation().assigned == 0


@pytest.mark.parametrize(
    "text",
    [
        rows("Total,12,Oslo"),
        rows("total,11,", "d,4,Rome"),
        rows("Totality,11,"),
        rows("Summer,11,"),
        "customer,orders,city\nTotal,11,\n",
    ],
    ids=["has a city", "is not the last row", "begins like one", "begins like sum", "is alone"],
)
def test_an_ordinary_row_is_no_total(tmp_path, campaign, text):
    assert proposed(tmp_path, text).unit == ("customer",)
    assert campaign.assign(tmp_path / "units.csv").assigned == len(text.splitlines()) - 1


@pytest.mark.parametrize("row", ["Total,11,Oslo", "TOTAL (3 rows),11,", "Sum total,11,--"])
def test_a_total_beside_a_sum_is_refused_whatever_else_the_row_says(tmp_path, campaign, row):
    text = rows(row)
    assert refusal(tmp_path, text) == [(5, "customer", "totals-row")]
    with refused("invalid-rows", row=5, column="customer", problem="totals-row"):
        campaign.assign(tmp_path / "units.csv")


def summed(*last, header="customer,orders,spent,city"):
    return "\n".join([header, "a,3,1.25,Oslo", "b,3,,Rome", "c,5,2.5,Oslo", "d,1,4,Rome", *last])


@pytest.fixture
def shopping(tmp_path):
    features = {"numeric": {"orders": "raw", "spent": {"scale": "raw", "missing": 0}}}
    store = open_store(tmp_path / "campaigns.db")
    yield Campaign.create({**SPEC, "features": features}, store=store)
    store.close()


def test_a_last_row_of_sums_is_doubted_by_init_and_by_assign(tmp_path, shopping):
    said = "line 6 ('e') may be a row of totals, with sums in orders, spent; if so, delete"
    draft = proposed(tmp_path, summed("e,12,7.7501,Oslo"))
    assert draft.columns[0].asks
    assert said in draft.columns[0].why
    (warning,) = shopping.assign(tmp_path / "units.csv").warnings
    assert warning.startswith(said)


@pytest.mark.parametrize(
    "last", [("e,12,8.75,Oslo",), ("e,12,,Oslo",), ("e,12,7.75,Oslo", "f,3,1,Rome")]
)
def test_one_sum_alone_is_no_doubt(tmp_path, shopping, last):
    assert not proposed(tmp_path, summed(*last)).columns[0].asks
    assert shopping.assign(tmp_path / "units.csv").warnings == ()


def test_zeros_and_few_numbers_are_no_sums(tmp_path):
    text = "customer,orders,spent\na,0,1\nb,0,1\nc,0,0\nd,0,2\n"
    assert not proposed(tmp_path, text).columns[0].asks


def test_sums_are_found_over_pieces_of_a_file(shopping):
    frame = pl.DataFrame({"customer": [f"u{n}" for n in range(5)], "orders": [1, 2, 3, 4, 10],
                          "spent": [2.0, 2.0, 2.0, 5.0, 11.0]})  # fmt: skip
    pieces = pa.concat_tables([frame[:2].to_arrow(), frame[2:3].to_arrow(), frame[3:].to_arrow()])
    (warning,) = shopping.assign(pieces).warnings
    assert warning.startswith("row 5 ('u4') may be a row of totals")


def test_a_row_of_subtotals_is_doubted_by_init_and_by_assign(tmp_path, campaign):
    said = "may be a row of totals: its id is 'Rural total', and its other cells are"
    text = rows("Rural total,11,", "d,4,Rome", "e,2,Oslo")
    draft = proposed(tmp_path, text)
    assert draft.columns[0].asks
    assert f"line 5 {said}" in draft.columns[0].why
    (warning,) = campaign.assign(tmp_path / "units.csv").warnings
    assert warning.startswith(f"line 5 {said}")
    # Where the file is refused anyway, the row is among the problems.
    for more in ("d,4,Rome", "f,x,Rome"):
        (tmp_path / "units.csv").write_text(text + f"{more}\n")
        with pytest.raises(InvalidFileError) as raised:
            campaign.assign(tmp_path / "units.csv")
        assert (5, "customer", "totals-row") in places(raised.value)
    first, *_ = refusal(tmp_path, text + "f,2,Rome\nTotal,8,\n")
    assert first == (5, "customer", "totals-row")


@pytest.mark.parametrize("row", ["Rural total,11,Oslo", "Totality,11,", "d,11,"])
def test_an_ordinary_row_is_no_row_of_subtotals(tmp_path, campaign, row):
    assert not proposed(tmp_path, rows(row, "e,4,Rome")).columns[0].asks
    assert campaign.assign(tmp_path / "units.csv").warnings == ()


def test_ids_that_often_have_such_a_word_are_no_totals(tmp_path, campaign):
    text = "customer,orders,city\n" + "".join(f"total-{n},3,\n" for n in range(8)) + "z,1,Oslo\n"
    assert not proposed(tmp_path, text).columns[0].asks
    assert campaign.assign(tmp_path / "units.csv").warnings == ()


def test_totals_of_a_table_in_memory_are_named(campaign):
    frame = pl.DataFrame({"customer": ["a", "Total"], "orders": [3.0, 3.0], "city": [None, None]})
    with refused("invalid-rows", row=2, column="customer", problem="totals-row"):
        campaign.assign(frame)


def test_a_second_header_is_named(tmp_path):
    text = "one,two,three\nid,orders,spend\na,3,1.50 EUR\nb,4,2024-01-03\n"
    assert refusal(tmp_path, text) == [(2, "", "second-header")]


@pytest.mark.parametrize(
    "first",
    ["x,unknown,4", "x,,unknown", "x,NA,unknown", "x,3,4", "x,m2,kg"],
)
def test_an_odd_first_row_is_no_header(tmp_path, first):
    draft = proposed(tmp_path, f"id,orders,spend\n{first}\na,3,1\nb,4,1\nc,5,2\n")
    assert draft.rows == 4


def test_a_header_between_rows_is_named(tmp_path, campaign):
    text = rows("customer, orders,city", "d,4,Rome", "customer,orders,city")
    assert refusal(tmp_path, text) == [(5, "", "repeated-header"), (7, "", "repeated-header")]
    path = tmp_path / "units.csv"
    with refused("invalid-rows", row=5, column="customer", problem="repeated-header"):
        campaign.assign(path)
    path.write_text(rows("customer,4,city"), encoding="utf-8")
    assert campaign.assign(path).assigned == 4


def test_few_missing_ids_are_named_by_their_lines(tmp_path):
    text = rows(",11,", ",9,Rome").replace("b,3,Rome", '"b\nb",3,Rome')
    found = refusal(tmp_path, text)
    assert found == [(6, "customer", "missing"), (7, "customer", "missing")]


def test_another_column_may_hold_the_ids(tmp_path):
    text = "login,client_id,orders\nann,7,3\nbob,,3\neve,9,3\n"
    assert refusal(tmp_path, text)[0] == (3, "client_id", "missing")
    draft = proposed(tmp_path, text.replace("login", "user_key"))
    assert draft.unit == ("user_key",)
    # So many are missing that the column says something else of units.
    text = "login,client_id,orders\n" + "".join(f"u{n},{n or ''},3\n" for n in (0, 0, 0, 4, 5))
    with refused("invalid-rows", problem="no-ids"):
        proposed(tmp_path, text)
    text = "login,client_id,orders\n" + "".join(f"u{n},{n if n > 3 else ''},3\n" for n in range(6))
    assert proposed(tmp_path, text).unit == ("login",)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("visits,customer,week\n3,a,1\n9,a,2\n1,b,1\n4,b,2\n", ("customer", "week")),
        ("visits,customer_id\n3,9\n9,7\n1,8\n", ("customer_id",)),
        ("visits,plan\n3,x\n9,x\n1,y\n", ("visits",)),
        ("visits,handle,customer_type\n3,x,1\n9,z,1\n1,y,2\n", ("handle",)),
    ],
)
def test_a_count_is_no_id_where_a_name_says_id(tmp_path, text, unit):
    assert proposed(tmp_path, text).unit == unit


def test_a_count_is_not_taken_for_the_ids_of_repeated_customers(tmp_path):
    with refused("invalid-rows", problem="no-ids"):
        proposed(tmp_path, "visits,customer,plan\n3,a,x\n9,a,x\n1,b,x\n4,b,y\n")


def test_values_without_a_name_are_refused(tmp_path, campaign):
    path = tmp_path / "units.csv"
    path.write_text("customer,orders,city,\na,3,x,\nb,4,x, \n", encoding="utf-8")
    assert campaign.assign(path).assigned == 2
    path.write_text('customer,orders,city,\nc,3,x,\nd,4,x,"y"\n', encoding="utf-8")
    with refused("invalid-rows", row=3, problem="unnamed-column"):
        campaign.assign(path)
    path.write_text(",customer,orders,city\n0,c,3,x\n1,d,4,x\n", encoding="utf-8")
    assert campaign.assign(path).assigned == 2


def shop(*more, header="customer_id,age,points"):
    """Return customers whose points happen to differ, and more rows."""
    return "\n".join([header, *(f"{n:04},{n % 7},{n * 17}" for n in range(1, 41)), *more]) + "\n"


def test_a_repeated_customer_is_named_with_its_lines(tmp_path):
    assert proposed(tmp_path, shop()).unit == ("customer_id",)
    assert refusal(tmp_path, shop("0006,3,999")) == [(42, "customer_id", "repeated")]


def test_what_is_wrong_with_ids_is_said_where_none_are_found(tmp_path):
    text = "customer,plan\n" + "".join(f"{n},x\n" for n in ("a", "b", "", "", "", "a", "b"))
    assert refusal(tmp_path, text) == [
        (0, "", "no-ids"), (4, "customer", "missing"), (7, "customer", "repeated"),
    ]  # fmt: skip


def test_a_column_without_a_name_is_mentioned(tmp_path):
    draft = proposed(tmp_path, '"",id,age\n1,a,3\n2,b,4\n3,c,3\n')
    assert (draft.columns[0].column, draft.columns[0].became) == ("(no name)", "left out")
    assert "(no name)" in first_spec(tmp_path / "units.csv").text
    found = refusal(tmp_path, '"",work,age\n1,no,3\n2,no,4\n3,yes,3\n')
    assert found == [(0, "", "no-ids"), (0, "", "unnamed-column")]


def test_a_unit_whose_name_does_not_say_so_is_to_be_checked(tmp_path):
    draft = proposed(tmp_path, "pop,age\n198712,3\n198911,4\n199113,3\n")
    assert draft.unit == ("pop",)
    assert draft.columns[0].asks
    assert not proposed(tmp_path, shop()).columns[0].asks


def test_a_title_above_the_header_is_refused_with_the_headers_line(tmp_path):
    text = "Export of 1 November,,\n,,\n" + rows()
    assert refusal(tmp_path, text) == [(3, "", "late-header")]
    text = "Export,,\nAs of,2026-11-01,\n,,\n" + rows()
    assert refusal(tmp_path, text) == [(4, "", "late-header")]
    two_headers = "customer,,city\nb,3,Oslo\n"
    assert refusal(tmp_path, two_headers) == [(2, "", "unnamed-column")]


def test_rows_of_another_length_are_refused_before_a_spec_is_made(tmp_path):
    found = refusal(tmp_path, rows("d,4", "e,5,Rome,extra"))
    assert found == [(5, "", "cell-count"), (6, "", "cell-count")]


def test_a_missing_column_is_told_those_that_are_there(tmp_path, campaign):
    path = tmp_path / "units.csv"
    path.write_text("Customer ,orders,city\na,3,x\n", encoding="utf-8")
    with refused("invalid-rows", column="customer", problem="no-such-column"):
        campaign.assign(path)
    path.write_text(rows(), encoding="utf-8")
    campaign.assign(path)
    path.write_text("customer,y\na,1\n", encoding="utf-8")
    with refused("invalid-rows", column="visit", problem="no-such-column"):
        campaign.record(path)


def test_only_some_of_many_repeated_ids_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "LISTED", 3)
    ids = [number - (number % 200 == 199) for number in range(2_000)]
    with pytest.raises(InvalidFileError) as caught:
        proposed(tmp_path, "customer,age\n" + "".join(f"{n:05d},30\n" for n in ids))
    assert places(caught.value) == [(200 * n + 1, "customer", "repeated") for n in (1, 2, 3, 4)]
    assert caught.value.problems[2].reason.startswith("repeats the id '00598' of line 600")
    assert caught.value.problems[3].reason == "is the first of 7 more rows that repeat an id"
