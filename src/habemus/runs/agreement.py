"""Agreement of two judgements of one property: a disagreement ends the command."""

from __future__ import annotations

from collections.abc import Iterable

from habemus.core.properties import Finding, Verdict


class JudgementsDisagree(RuntimeError):
    """Two judgements of one property contradict each other, so neither can be trusted."""

    def __init__(self, name: str, one: str, other: str) -> None:
        super().__init__(name, one, other)  # these three, so that a worker can pass it on

    def __str__(self) -> str:
        name, one, other = self.args
        return (
            f"{name}: {one}, but {other}; judgements of one property disagree, which is a defect of"
            " habemus: report it with the command line"
        )


def confirmed(name: str, found_by: str, findings: Iterable[Finding]) -> Finding:
    """Return the monitor's finding of a property that `found_by` finds violated; raise
    `JudgementsDisagree` unless the monitor finds it violated too.
    """
    judged = {finding.name: finding for finding in findings}
    finding = judged.get(name)
    if finding is None:
        raise JudgementsDisagree(
            name, f"{found_by} finds it violated", "the monitor does not judge it"
        )
    if finding.verdict is not Verdict.VIOLATED:
        raise JudgementsDisagree(
            name,
            f"{found_by} finds it violated",
            f"the monitor finds {finding.verdict.value} ({finding.why})",
        )
    return finding


__all__ = ["JudgementsDisagree", "confirmed"]
