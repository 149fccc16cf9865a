"""The page with the pictures of the scenarios."""

from xml.etree import ElementTree

from habemus.scenarios import scenarios
from habemus.scenarios.sheet import page


def test_the_page_has_the_picture_of_each_scenario_under_its_problem() -> None:
    names = ("central-three", "bully-five", "central-holder-slow")
    text = page(scenarios()[name].run() for name in names)
    found = ElementTree.fromstring(
        text.split("<main>")[1]
        .split("</main>")[0]
        .join(["<m>", "</m>"])
        .replace('full size">', 'full size"/>')
    )
    order = [each.text or each.get("id") for each in found]
    assert order == [
        *("Mutual exclusion", "central-three", "central-holder-slow"),
        *("Leader election", "bully-five"),
    ]
    pictures = found.findall(".//{http://www.w3.org/2000/svg}svg")
    assert [each.get("aria-label") for each in pictures] == [
        scenarios()[name].title for name in ("central-three", "central-holder-slow", "bully-five")
    ]
