"""What is read from the files of killed processes."""

from __future__ import annotations

import json

import pytest

from habemus.torture.history import history_of, lines_of, read_client, read_journal


def text(*lines: list[object]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_half_a_line_is_no_event() -> None:
    assert list(lines_of('[1, "acquire", 1, "a"]\n[2, "gran')) == [[1, "acquire", 1, "a"]]


def test_a_stay_from_asking_to_leaving() -> None:
    [stay], [update] = read_client(
        "1.1",
        [
            [1, "acquire", 1, "a"],
            [5, "granted", 1, 77],
            [6, "read", 1],
            [8, "write", 1, 41],
            [9, "wrote", 1],
            [10, "release", 1],
        ],
        99,
    )
    assert (stay.asked, stay.answered, stay.left, stay.token, stay.ending) == (
        1,
        5,
        10,
        77,
        "release",
    )
    assert (update.invoked, update.returned, update.value) == (6, 9, 41)


def test_what_a_killed_client_had_not_ended_ended_then() -> None:
    [first, second], [update] = read_client(
        "1.1",
        [
            [1, "acquire", 1, "a"],
            [5, "granted", 1, None],
            [6, "read", 1],
            [8, "write", 1, 41],
            [9, "acquire", 2, "a"],
        ],
        99,
    )
    assert (first.left, first.ending) == (99, "killed")
    assert (second.outcome, second.answered, second.left) == ("unknown", None, 99)
    assert update.returned is None


def test_a_loss_ends_a_stay_and_a_release_after_it_changes_nothing() -> None:
    [stay], updates = read_client(
        "1.1",
        [
            [1, "acquire", 1, "a"],
            [5, "granted", 1, 7],
            [6, "read", 1],
            [8, "write", 1, 41],
            [20, "lost", 1, "it was told"],
            [21, "refused", 1],
            [22, "release", 1],
        ],
        99,
    )
    assert (stay.left, stay.ending) == (20, "lost")
    assert updates == []


def test_a_refused_read_takes_no_earlier_update_back() -> None:
    _, updates = read_client(
        "1.1",
        [
            [1, "acquire", 1, "a"],
            [5, "granted", 1, 7],
            *([6, "read", 1], [8, "write", 1, 41], [9, "wrote", 1]),
            *([10, "read", 1], [11, "refused", 1]),
        ],
        99,
    )
    assert [update.returned for update in updates] == [9]


@pytest.mark.parametrize("outcome", ["timeout", "failed", "cancelled"])
def test_a_timeout_is_no_grant(outcome: str) -> None:
    [stay], _ = read_client("1.1", [[1, "acquire", 1, "a"], [5, outcome, 1, "not in time"]], 99)
    assert not stay.is_granted
    assert (stay.answered, stay.left) == (5, None)


def test_faults_and_healings() -> None:
    journal = read_journal(
        [
            [1, "began", "cut", "1>2", 1, ""],
            [2, "began", "kill-client", "client 3.1", 2, "3.1"],
            [3, "killed", "3.1"],
            [4, "ended", 1],
            [5, "healed"],
            [9, "stalled", 7],
        ]
    )
    faults = [(each.kind, each.began, each.ended, each.client) for each in journal.faults]
    assert faults == [("cut", 1, 4, ""), ("kill-client", 2, None, "3.1")]
    assert (journal.healings, journal.killed, journal.stalls) == ([5], {"3.1": 3}, [(7, 9)])


def test_a_whole_history() -> None:
    clients = {
        "1.1": text([1, "acquire", 1, "a"], [2, "granted", 1, None]),
        "1.2": text([6, "acquire", 1, "a"], [7, "granted", 1, None]),
    }
    referee = text([3, "read", "a", "1.1", 1, None, None, True])
    history = history_of(
        0,
        50,
        clients,
        referee,
        text([4, "began", "kill-client", "client 1.1", 1, "1.1"], [5, "killed", "1.1"]),
    )
    assert [(stay.client, stay.left) for stay in history.grants] == [("1.1", 5), ("1.2", 50)]
    assert history.accesses[0].whose == ("1.1", 1)


def test_what_happened_after_the_end_is_left_out() -> None:
    """So that files which are still being written can be judged: all of them up to the same
    moment.
    """
    clients = {
        "1.1": text([1, "acquire", 1, "a"], [2, "granted", 1, 7], [9, "release", 1]),
        "2.1": text([8, "acquire", 1, "a"]),
    }
    referee = text(
        [3, "read", "a", "1.1", 1, 7, None, True], [7, "read", "a", "1.1", 1, 7, None, True]
    )
    history = history_of(0, 5, clients, referee, text([6, "began", "cut", "1>2", 1, ""]))
    assert [(stay.client, stay.left) for stay in history.stays] == [("1.1", 5)]
    assert (len(history.accesses), history.faults) == (1, [])
