"""Voting sets in words and as pictures."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from habemus.analysis.pictures.voting import in_words, voting_of
from habemus.analysis.pictures.voting_picture import picture, save
from habemus.catalog.entries import find
from habemus.runs.setup import BadSetup

MAEKAWA = find("maekawa")
SVG = "{http://www.w3.org/2000/svg}"


def test_words() -> None:
    text = in_words(voting_of(MAEKAWA, 13, None))
    assert "Voting sets of 13 by a projective plane: K = 4" in text
    assert "any two sets have 1 in common" in text
    assert "3(K-1) = 9 messages, asking all 2(N-1) = 24" in text
    assert text.count("●") == 13 * 4


def test_a_grid_is_written_as_one() -> None:
    text = in_words(voting_of(MAEKAWA, 14, "grid"))
    assert "   9 10 11 12\n  13 14\n" in text
    assert "K = 7 at most" in text
    assert "{3, 7, 9, 10, 11, 12}" in text


def test_many_get_a_list_without_a_table() -> None:
    text = in_words(voting_of(MAEKAWA, 57, None))
    assert "●" not in text
    assert len(text.splitlines()) == 57 + 5


def test_numbers() -> None:
    plain = voting_of(MAEKAWA, 9, "majority").plain()
    assert (plain["k"], plain["in_common"], plain["messages_per_entry"]) == (5, [1, 4], 12)
    assert plain["votes"] == dict.fromkeys(map(str, range(1, 10)), 5)
    assert plain["sets"]["9"] == [1, 2, 3, 4, 9]


@pytest.mark.parametrize(
    ("size", "how"),
    [
        (2, None),
        (3, None),
        (5, "grid"),
        (7, None),
        (9, "majority"),
        (13, None),
        (25, "grid"),
        (73, None),
    ],
)
def test_the_picture_shows_every_vote(size: int, how: str | None) -> None:
    voting = voting_of(MAEKAWA, size, how)
    root = ElementTree.fromstring(picture(voting))
    shown = {title.text for title in root.iter(f"{SVG}title")}
    assert shown == {
        f"{process} needs the vote of {voter}"
        for process, voters in voting.sets.items()
        for voter in voters
    }
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for box in root.iter(f"{SVG}rect"):
        assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
        assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height
    for dot in root.iter(f"{SVG}circle"):
        assert float(dot.attrib["cx"]) + float(dot.attrib["r"]) <= width
        assert float(dot.attrib["cy"]) + float(dot.attrib["r"]) <= height


def test_the_plane_of_seven_has_six_straight_lines_and_a_round_one() -> None:
    root = ElementTree.fromstring(picture(voting_of(MAEKAWA, 7, None)))
    assert len(list(root.iter(f"{SVG}line"))) == 6
    assert len([dot for dot in root.iter(f"{SVG}circle") if dot.attrib["fill"] == "none"]) == 1


def test_both_kinds_of_file(tmp_path: Path) -> None:
    voting = voting_of(MAEKAWA, 7, None)
    save(voting, tmp_path / "sets.svg")
    save(voting, tmp_path / "sets.png")
    assert (tmp_path / "sets.svg").read_text(encoding="utf-8") == picture(voting)
    assert (tmp_path / "sets.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"must end in \.svg or \.png"):
        save(voting, tmp_path / "sets.pdf")


def test_what_has_no_voting_sets() -> None:
    with pytest.raises(BadSetup, match="maekawa and maekawa-sanders have"):
        voting_of(find("central"), 7, None)
    with pytest.raises(BadSetup, match="2 to 400"):
        voting_of(MAEKAWA, 1, None)
    with pytest.raises(ValueError, match="7 or 13"):
        voting_of(MAEKAWA, 12, "plane")
