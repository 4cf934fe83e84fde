"""Sessions are kept the same in both stores."""

from datetime import UTC, datetime, timedelta

from seqbatch.storage import tokens

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_session_stands_for_its_token_until_it_ends(store):
    _, ann = tokens.create(store, "ann", role="admin", expires=NOW + 3 * HOUR, now=NOW)
    _, bob = tokens.create(store, "bob", role="viewer", campaigns=("spring",), now=NOW)
    first = tokens.begin_session(store, ann, until=NOW + HOUR)
    second = tokens.begin_session(store, ann, until=NOW + 9 * HOUR)
    third = tokens.begin_session(store, bob, until=NOW + HOUR)
    assert [tokens.find_session(store, one, now=NOW) for one in (first, second, third)] == [
        ann,
        ann,
        bob,
    ]
    assert tokens.find_session(store, "", now=NOW) is None
    # The token expires before the second session does.
    later = [NOW + HOUR, NOW + 2 * HOUR, NOW + 4 * HOUR]
    assert [tokens.find_session(store, second, now=at) for at in later] == [ann, ann, None]
    assert [tokens.find_session(store, first, now=at) for at in later] == [None] * 3
    assert tokens.forget_sessions(store, now=NOW + HOUR) == 2
    tokens.end_session(store, second)
    assert tokens.find_session(store, second, now=NOW) is None
    assert tokens.forget_sessions(store, now=NOW + 99 * HOUR) == 0
