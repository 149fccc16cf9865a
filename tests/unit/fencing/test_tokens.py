"""What is a token, and what is not."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habemus.fencing import StaleToken, check_token, token_from, token_text
from habemus.fencing.tokens import LARGEST


def test_no_token_says_whose_fault_it_is() -> None:
    with pytest.raises(
        ValueError, match="token is None: the algorithm of this lock has no fencing tokens"
    ):
        check_token(None)


@pytest.mark.parametrize("wrong", [True, 1.0, "7", (1, 2), b"7"])
def test_what_is_not_a_number(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a token is an int"):
        check_token(wrong)


@pytest.mark.parametrize("wrong", [-1, LARGEST + 1])
def test_what_is_out_of_range(wrong: int) -> None:
    with pytest.raises(ValueError, match="63 bits"):
        check_token(wrong)


@given(st.integers(0, LARGEST))
def test_a_token_is_read_as_it_was_written(token: int) -> None:
    assert token_from(str(token)) == token


@pytest.mark.parametrize(
    ("token", "text"), [(2 << 32 | 3, "2.3"), (1 << 32, "1.0"), (41, "41"), (0, "0")]
)
def test_people_read_term_and_count(token: int, text: str) -> None:
    assert token_text(token) == text
    assert f"token {text} is stale" in str(StaleToken(token, token + 1))


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "",
        " 7",
        "7 ",
        "+7",
        "-7",
        "0x7",
        "7.0",
        "1_000",
        "\N{ARABIC-INDIC DIGIT SEVEN}",
        "9" * 19,
        "1" * 400,
    ],
)
def test_what_is_not_written_like_a_token(wrong: str | None) -> None:
    with pytest.raises(ValueError, match="token"):
        token_from(wrong)


def test_a_refusal_travels_between_processes() -> None:
    refusal = pickle.loads(pickle.dumps(StaleToken(3, 8)))
    assert (refusal.token, refusal.newest) == (
        3,
        8,
    ) and "token 3 is stale: the resource has accepted token 8" in str(refusal)
