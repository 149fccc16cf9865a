import pytest

from habemus.core.words import counted, did_you_mean, similar


def test_one_and_many() -> None:
    assert counted(1, "grant") == "1 grant"
    assert counted(0, "grant") == "0 grants"
    assert counted(1_000, "entry", "entries") == "1,000 entries"


NAMES = ["central", "central-timeout", "ring", "ring-anonymous", "ring-repair", "ring-repair-2"]


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ("centrl", ["central"]),
        ("Central_Timeout", ["central-timeout", "central"]),
        ("ring-", ["ring-anonymous", "ring-repair", "ring-repair-2"]),  # three at most
        ("nosuch", []),
        ("", []),
    ],
)
def test_similar_names(wrong: str, found: list[str]) -> None:
    assert similar(wrong, NAMES) == found


@pytest.mark.parametrize(
    ("wrong", "known", "listed", "hint"),
    [
        ("kil", ["kill", "cut"], "", "did you mean kill?"),
        ("a", ["ab", "ac"], "", "did you mean ab or ac?"),
        ("a", ["ab", "ac", "ad", "ae"], "x lists all", "did you mean ab, ac or ad? x lists all"),
        ("zz", ["ab", "ac"], "x lists all", "x lists all"),
        ("zz", ["ab", "ac"], "", "there are ab, ac"),
        ("zz", ["ab"], "", "there is ab"),
        ("zz", [], "", "there are none"),
    ],
)
def test_hint_for_an_unknown_name(wrong: str, known: list[str], listed: str, hint: str) -> None:
    assert did_you_mean(wrong, known, listed) == hint
