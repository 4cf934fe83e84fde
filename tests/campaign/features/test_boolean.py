"""Booleans as they are spelled in files."""

import datetime

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.boolean import NO, YES, read_booleans

DAY = datetime.date(2026, 3, 1)


def test_booleans_in_every_usual_spelling():
    words = [spelled for word in YES for spelled in (word, word.upper(), f" {word.title()} ")]
    assert read_booleans(pa.array(words)).values_and_wrong()[0].all()
    words = [spelled for word in NO for spelled in (word, word.upper(), f" {word.title()} ")]
    read = read_booleans(pa.array(words))
    assert not read.values_and_wrong()[0].any()
    assert not read.missing.any()
    assert read.wrong == {}
    assert not set(YES) & set(NO)


def test_booleans_of_other_types_and_missing_ones():
    for column in (
        pa.array([True, False, None]),
        pa.array([1, 0, None]),
        pa.array([1.0, 0.0, np.nan]),
        pa.array(["yes", "no", "NA"]).dictionary_encode(),
        pa.array(["1", "0", ""], pa.large_string()),
    ):
        read = read_booleans(column)
        assert read.values_and_wrong()[0].tolist() == [1.0, 0.0, 0.0]
        assert read.missing.tolist() == [False, False, True]
        assert read.wrong == {}


def test_what_is_no_boolean_is_refused():
    rule = "must be a yes or a no, such as true, yes, 1, false, no, 0; received"
    assert read_booleans(pa.array(["maybe", "2"])).wrong == {0: f"{rule} 'maybe'", 1: f"{rule} '2'"}
    assert read_booleans(pa.array([2, 1])).wrong == {0: f"{rule} 2"}
    assert 0 in read_booleans(pa.array([DAY])).wrong
