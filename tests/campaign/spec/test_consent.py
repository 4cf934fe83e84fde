"""Columns of consent become eligibility rules, by whole words of their names and by values."""

import polars as pl
import pytest

from seqbatch.campaign import Campaign
from seqbatch.campaign.spec.consent import Consent, channels_of, consent_of
from seqbatch.campaign.spec.template import Choices, first_spec
from seqbatch.campaign.spec.toml import parse_spec
from seqbatch.storage import open_store

ROWS = 60
BLOCKS = {
    "do_not_contact": (), "DoNotCall": ("phone",), "opt_out": (), "HasOptedOutOfEmail": ("e-mail",),
    "hs_email_optout": ("e-mail",), "unsubscribed": (), "Werbesperre": (),
    "Telefonsperre": ("phone",),
    "Werbewiderspruch": (), "keine_werbung": (), "no_email": ("e-mail",), "Robinson": (),
    "contact_blocked": (), "gesperrt": (), "no_consent": (), "Newsletter abgemeldet": ("e-mail",),
    "sms_opt-out": ("sms",), "kein Brief": ("post",), "keine Telefonwerbung": ("phone",),
    "Postwerbung gesperrt": ("post",),
}  # fmt: skip
PERMITS = {
    "telefon_erlaubt": ("phone",), "newsletter_opt_in": ("e-mail",), "phone_consent": ("phone",),
    "Accepts Email Marketing": ("e-mail",), "E-Mail-Einwilligung": ("e-mail",), "optIn": (),
    "marketing_permission": (), "may_phone": ("phone",), "darf_angerufen_werden": ("phone",),
    "Email Subscription Status": ("e-mail",), "WhatsApp consent": ("sms",),
    "Werbeeinwilligung": (), "double_opt_in": (), "post_erlaubt": ("post",),
    "Telefonwerbung erlaubt": ("phone",), "E-Mailwerbung erlaubt": ("e-mail",),
    "Briefwerbung_ok": ("post",), "Telefonkontakt erwünscht": ("phone",), "can_email": ("e-mail",),
    "Werbeeinverständnis": (), "Einverständnis Werbung": (), "einverstanden mit Anruf": ("phone",),
}  # fmt: skip
NEITHER = [
    "optimum", "option", "subscription", "subscribed", "adopted", "optic", "consentration", "phone",
    "phone_no", "Telefon",
    "mailbox_size", "emails_opened", "Kreditsperre", "account_blocked", "Liefersperre",
    "newsletter", "block_house", "allowed_discount", "may_sales", "accepted_offers", "age",
    "no_orders", "Nr", "call", "Robinsons points", "Telefonwerbung", "can_size", "Postkontakte",
]  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_known_by_its_name(name):
    found = consent_of(name)
    assert (found.permits, found.channels) == (False, BLOCKS[name])


@pytest.mark.parametrize("name", PERMITS)
def test_a_permission_is_known_by_its_name(name):
    found = consent_of(name)
    assert (found.permits, found.channels) == (True, PERMITS[name])


@pytest.mark.parametrize("name", NEITHER)
def test_parts_of_words_and_other_words_say_nothing(name):
    assert consent_of(name) is None


def test_actions_are_matched_by_their_words():
    phone, any_contact = Consent(permits=True, channels=("phone",)), Consent(permits=False)
    assert [phone.matches(name) for name in ("call", "Anruf", "phone call", "recall", "mail")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert any_contact.matches("offer A")
    assert channels_of("direct mail") == ("e-mail", "post")
    assert channels_of("E-Mail") == ("e-mail",)
    assert channels_of("no e-mail") == channels_of("kein Anruf") == ()


def column(*values):
    return [values[row % len(values)] for row in range(ROWS)]


def drafted(folder, columns, **choices):
    path = folder / "units.csv"
    pl.DataFrame({"id": [f"C{row}" for row in range(ROWS)], **columns}).write_csv(path)
    choices = {"actions": ("none", "mail", "call"), "waves": 1, **choices}
    made = first_spec(path, Choices(**choices))
    return path, made, {each.column: each for each in made.draft.columns}


@pytest.mark.parametrize(("name", "values", "rule", "allowed"), [
    ("opt_out", ("yes", "no", "no"), "not opt_out", {"no"}),
    # Without a value, nobody knows: not contacted.
    ("opt_out", ("yes", "no", ""), "not opt_out", {"no"}),
    ("opt_out", ("1", "", ""), "opt_out is missing", {""}),
    ("Werbesperre", ("X", "", ""), "Werbesperre is missing", {""}),
    ("unsubscribed_at", ("2024-01-31", "", "2023-05-06", ""), "unsubscribed_at is missing", {""}),
    ("opt in", ("ja", "nein"), "`opt in`", {"ja"}),
    ("opt_in", ("X", "", ""), "opt_in is not missing", {"X"}),
    ("opt_in", ("1", "", "NA"), "opt_in", {"1"}),
    ("consent", ("granted", "denied", "pending"), "consent in ['granted']", {"granted"}),
])  # fmt: skip
def test_a_rule_lets_those_through_who_may_be_contacted(tmp_path, name, values, rule, allowed):
    path, made, became = drafted(tmp_path, {name: column(*values)})
    assert (became[name].became, became[name].rule) == ("eligibility", rule)
    assert made.draft.eligible == {"mail": rule, "call": rule}
    assert became[name].asks
    spec = parse_spec(made.text)
    assert name not in spec.features.columns
    store = open_store(tmp_path / "campaigns.db")
    table = pl.from_arrow(Campaign.create(spec, store=store).assign(path).table)
    store.close()
    given = dict(zip(table["id"], (table["p(call)"] > 0), strict=True))
    assert [given[f"C{row}"] for row in range(ROWS)] == [
        value in allowed for value in column(*values)
    ]
    assert set(table["p(none)"] > 0) == {True}


def test_rules_of_several_columns_are_joined_by_action(tmp_path):
    columns = {
        "do_not_contact": column("no", "no", "yes"), "telefon_erlaubt": column("J", "N"),
        "sms_consent": column("1", "0", "0"),
    }  # fmt: skip
    _, made, became = drafted(tmp_path, columns, actions=("nichts", "Anruf", "E-Mail"))
    assert made.draft.eligible == {
        "Anruf": "not do_not_contact and telefon_erlaubt", "E-Mail": "not do_not_contact"
    }  # fmt: skip
    # No action is a text message.
    asked = became["sms_consent"]
    assert (asked.became, asked.among) == ("question", "eligibility")
    assert '# "an action" = "sms_consent"' in made.text
    # A control that is a contact itself is doubted.
    assert "CHECK" not in became["do_not_contact"].why
    _, _, became = drafted(tmp_path, columns, actions=("letter", "call"))
    assert "CHECK" in became["do_not_contact"].why


@pytest.mark.parametrize(("name", "values", "became", "code"), [
    # It would exclude everybody: asked about.
    ("opt_in", ("no", ""), "question", ""),
    # It excludes nobody.
    ("opt_out", ("no",), "left out", "one-value"),
    # Not yes and no, under a name that leaves no doubt, and under one that does.
    ("consent", ("shop", "web", "phone"), "left out", "consent"),
    ("call_allowed", ("morning", "evening", "never"), "categorical", ""),
])  # fmt: skip
def test_consent_that_is_no_rule(tmp_path, name, values, became, code):
    _, made, columns = drafted(tmp_path, {name: column(*values)})
    assert (columns[name].became, columns[name].code) == (became, code)
    assert not made.draft.eligible


def test_you_may_say_that_a_column_is_a_rule_or_is_not(tmp_path):
    columns = {"vip": column("yes", "no"), "opt_out": column("yes", "no", "no")}
    kinds = {"vip": "eligibility", "opt_out": "boolean"}
    _, made, became = drafted(tmp_path, columns, kinds=kinds)
    assert made.draft.eligible == {"mail": "vip", "call": "vip"}
    assert became["opt_out"].became == "boolean"
