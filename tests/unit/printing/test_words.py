"""Both languages say the same things."""

import string

import pytest

from habemus.printing.words import ENGLISH, LANGUAGES, PORTUGUESE, on_one_line, say


def fields(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)


@pytest.mark.parametrize("what", ENGLISH)
def test_every_sentence_is_there_in_both_languages_with_the_same_fields(what: str) -> None:
    assert fields(ENGLISH[what]) == fields(PORTUGUESE[what])
    assert ENGLISH[what] != PORTUGUESE[what]


def test_there_is_no_sentence_in_one_language_only() -> None:
    assert ENGLISH.keys() == PORTUGUESE.keys()
    assert set(LANGUAGES) == {"en", "pt"}


def test_the_status_line_names_whom_it_waits_for_only_if_it_does() -> None:
    assert (
        say("en", "state", me=1, state="WANTED", clock=6, clients=[2, 3])
        == "client 1: WANTED, clock 6, waits for 2, 3"
    )
    assert say("en", "state", me=1, state="HELD", clock=9, clients=[]) == "client 1: HELD, clock 9"
    assert (
        say("pt", "state", me=1, state="WANTED", clock=6, clients=[2])
        == "cliente 1: WANTED, relógio 6, espera por 2"
    )
    assert (
        say("en", "waiting", me=1, clients=[2, 3], away=[3])
        == "client 1 still waits for 2, 3 (not reached: 3)"
    )


def test_what_others_send_cannot_write_to_the_terminal() -> None:
    assert on_one_line("a\x1b[2Jb\r\nc\u202ed é") == "a\\x1b[2Jb\\r\\nc\\u202ed é"
