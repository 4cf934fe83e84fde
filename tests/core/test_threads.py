"""Linear algebra on one thread: for as long as any block wants it, and not longer."""

from contextlib import ExitStack

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from seqbatch.core.threads import one_thread


def threads():
    found = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
    [count] = found
    return count


@pytest.fixture(autouse=True)
def two():
    """Allow two threads; make test allows one."""
    np.linalg.inv(np.eye(2))
    with threadpool_limits(2, user_api="blas"):
        if threads() != 2:
            pytest.skip("this linear algebra has no threads")
        yield


def test_blocks_that_overlap_share_one_limit():
    # Two calls of a service begin one after the other, and end in the same order.
    first, second = ExitStack(), ExitStack()
    first.enter_context(one_thread())
    second.enter_context(one_thread())
    assert threads() == 1
    first.close()
    assert threads() == 1
    second.close()
    assert threads() == 2


def test_an_error_lifts_the_limit():
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert threads() == 2
