"""The page of every key of a spec is current, complete, and its examples are accepted."""

import tomllib
from typing import Annotated

import pytest
from pydantic import TypeAdapter

from seqbatch.campaign.spec.base import SpecPart
from seqbatch.campaign.spec.features import NumberRules, Scaling
from tests.spec_page import BY_TABLE, KEYS, PAGE, page

#: Parts that no key holds by themselves.
WITHIN = {NumberRules, Scaling}


def test_the_page_is_current():
    """After a change: python -m tests.spec_page."""
    assert PAGE.read_text(encoding="utf-8") == page()


def parts(kind):
    return {each for child in kind.__subclasses__() for each in (child, *parts(child))}


def test_the_page_has_every_key():
    assert parts(SpecPart) - WITHIN == set(KEYS)
    for model, (_, keys) in KEYS.items():
        missing = {(model, name) for name in model.model_fields} - BY_TABLE
        assert missing == {(model, name) for name in keys}


@pytest.mark.parametrize("model", KEYS, ids=lambda model: model.__name__)
def test_examples_are_accepted(model):
    for name, (example, _) in KEYS[model][1].items():
        value = tomllib.loads(f"x = {example}")["x"]
        field = model.model_fields[name]
        kind = (
            Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        )
        TypeAdapter(kind).validate_python(value)
