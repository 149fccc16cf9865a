from habemus.core.words import counted


def test_one_and_many() -> None:
    assert counted(1, "grant") == "1 grant"
    assert counted(0, "grant") == "0 grants"
    assert counted(1_000, "entry", "entries") == "1000 entries"
