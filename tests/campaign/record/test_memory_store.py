"""The store in memory keeps the contract of all stores."""

import pytest

from seqbatch.campaign.record.memory_store import MemoryStore
from tests.storage import test_stores as contract

RULES = (
    contract.test_what_goes_in_comes_out,
    contract.test_outcomes_have_versions,
    contract.test_an_outcome_may_have_metrics_and_no_value,
    contract.test_logged_rows_have_keys_and_versions,
    contract.test_many_small_chunks_come_in_order,
    contract.test_campaigns_are_kept_apart,
    contract.test_a_change_that_fails_leaves_nothing,
    contract.test_rows_without_their_event_are_refused,
    contract.test_no_unit_has_two_numbers,
    contract.test_a_sequence_number_is_used_once,
    contract.test_both_zeros_are_one,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_it_keeps_the_contract(rule):
    rule(MemoryStore())
