"""Quorum systems: sets of voters of which any two intersect.

Every process i has a voting set V_i with i in V_i, and any two sets have a process in common.  That
process votes for one process at a time, so only one process at a time has all the votes of its set.
Small sets cost few messages:

    majority           any N                    K = floor(N/2) + 1
    weighted_majority  any N, with weights      as few as reach more than half of the weight
    grid               any N                    K = ceil(2 sqrt(N)) - 1 at most
    projective_plane   N = q^2 + q + 1          K = q + 1, the least possible; q a power of a prime

Sources  Gifford: Weighted voting for replicated data, SOSP 1979.
         Maekawa: A sqrt(N) algorithm for mutual exclusion in decentralized systems,
         ACM TOCS 3(2), 1985.
         Singer: A theorem in finite projective geometry, Trans. AMS 43(3), 1938.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import combinations, pairwise, product
from math import isqrt
from typing import TypeAlias

from habemus.core.process import MistakeInPlan, ProcessId

Processes: TypeAlias = int | Iterable[ProcessId]
"""The processes, or their number n: then they are 1, 2, ... n."""

LARGEST_PLANE = 16 * 16 + 16 + 1
"""Default limit of `sizes_with_plane`.  Larger planes can be built."""


class VotingSets(Mapping[ProcessId, tuple[ProcessId, ...]]):
    """The voting set of every process, in ascending order.  Immutable.

    Sets that do not intersect are accepted; `check` refuses them.
    """

    __slots__ = ("_sets",)

    def __init__(self, sets: Mapping[ProcessId, Iterable[ProcessId]]) -> None:
        if not sets:
            raise MistakeInPlan("voting sets need at least one process")
        self._sets = {process: tuple(sorted(set(sets[process]))) for process in sorted(sets)}

    def __getitem__(self, process: ProcessId) -> tuple[ProcessId, ...]:
        return self._sets[process]

    def __iter__(self) -> Iterator[ProcessId]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)

    def __hash__(self) -> int:
        return hash(tuple(self._sets.items()))

    def __repr__(self) -> str:
        return f"VotingSets({self._sets})"

    @property
    def size(self) -> int:
        """K, the size of the largest set."""
        return max(map(len, self._sets.values()))

    @property
    def is_regular(self) -> bool:
        """Whether all sets have the same size, so that entries of all processes cost the same."""
        return len({len(voters) for voters in self._sets.values()}) == 1

    def check(self) -> VotingSets:
        """Return these sets, or raise `MistakeInPlan` (a `ValueError`) if two do not intersect."""
        for process, voters in self._sets.items():
            for voter in voters:
                if voter not in self._sets:
                    raise MistakeInPlan(
                        f"process {voter} in the voting set of {process} has no voting set of"
                        " its own"
                    )
            if process not in voters:
                raise MistakeInPlan(
                    f"process {process} is not in its own voting set {_shown(voters)}"
                )
        as_sets = {process: frozenset(voters) for process, voters in self._sets.items()}
        for one, other in combinations(self._sets, 2):
            if as_sets[one].isdisjoint(as_sets[other]):
                both = (
                    f"{_shown(self._sets[one])} of {one} and {_shown(self._sets[other])} of {other}"
                )
                raise MistakeInPlan(f"the voting sets {both} have no process in common")
        return self


def _shown(voters: tuple[ProcessId, ...]) -> str:
    return f"{{{', '.join(map(str, voters))}}}"


def _listed(processes: Processes) -> tuple[ProcessId, ...]:
    everybody = range(1, processes + 1) if isinstance(processes, int) else processes
    listed = tuple(sorted(everybody))
    if not listed:
        raise MistakeInPlan(
            "a quorum system needs at least one process, not"
            f" {processes if isinstance(processes, int) else 0}"
        )
    for one, other in pairwise(listed):
        if one == other:
            raise MistakeInPlan(f"process {one} is named twice")
    return listed


def more_than_half(total: int) -> int:
    """Return the smallest number of votes, or weight, that is more than half of the total."""
    return total // 2 + 1


def majority(processes: Processes) -> VotingSets:
    """Make voting sets of a majority: each process and those that follow it in a circle.

    All processes are in equally many sets.
    """
    return weighted_majority(dict.fromkeys(_listed(processes), 1))


def weighted_majority(weights: Mapping[ProcessId, int]) -> VotingSets:
    """Make voting sets of more than half of the total weight, with few processes in each.

    The heaviest processes are taken first; among equals, those that follow the process in a circle,
    which spreads the work.
    """
    everybody = _listed(weights)
    for process in everybody:
        if weights[process] <= 0:
            raise MistakeInPlan(
                f"the weight of process {process} is {weights[process]}; a weight is at least 1"
            )
    needed = more_than_half(sum(weights.values()))
    sets = {}
    for position, process in enumerate(everybody):
        others = sorted(
            (*everybody[position + 1 :], *everybody[:position]), key=lambda other: -weights[other]
        )  # sorted keeps the circle
        voters, weight = [process], weights[process]
        for other in others:
            if weight >= needed:
                break
            voters.append(other)
            weight += weights[other]
        sets[process] = voters
    return VotingSets(sets)


def grid(processes: Processes) -> VotingSets:
    """Make voting sets of a row and a column of a square that is filled row by row.

    The last row may be shorter, and then the sets differ in size.  They still intersect: of two
    processes in different rows, at least one is in a full row, and that row has a cell in the
    column of the other.
    """
    everybody = _listed(processes)
    width = isqrt(len(everybody) - 1) + 1  # the square root, rounded up
    rows = [everybody[start : start + width] for start in range(0, len(everybody), width)]
    sets = {}
    for row in rows:
        for column, process in enumerate(row):
            sets[process] = {*row, *(each[column] for each in rows if column < len(each))}
    return VotingSets(sets)


def projective_plane(processes: Processes) -> VotingSets:
    """Make voting sets from the lines of a finite projective plane of order q, with K = q + 1.

    Any two sets have exactly one process in common.  Planes exist for N = q^2 + q + 1 processes
    where q is a power of a prime; for other q no plane is known, and for some it is proved that
    there is none.  Every process votes in exactly K sets, so the work is equal.
    """
    everybody = _listed(processes)
    size = len(everybody)
    order = _order_of(size)
    if order is None:
        raise MistakeInPlan(
            f"no projective plane of {size} points is known; the nearest that is has"
            f" {_nearest_sizes(size)}"
        )
    # The plane is cyclic, so the lines are the shifts of one; that one has the point 0, so the i-th
    # shift has the point i.
    line = _difference_set(order)
    return VotingSets(
        {
            process: [everybody[(index + point) % size] for point in line]
            for index, process in enumerate(everybody)
        }
    )


def sizes_with_plane(largest: int = LARGEST_PLANE) -> tuple[int, ...]:
    """Return the numbers of processes up to `largest` for which `projective_plane` works."""
    orders = (order for order in range(2, isqrt(max(largest, 0)) + 1) if _prime_of(order))
    return tuple(size for size in map(_size_of, orders) if size <= largest)


def _size_of(order: int) -> int:
    return order * order + order + 1


def _order_of(size: int) -> int | None:
    order = isqrt(size)
    return order if _size_of(order) == size and _prime_of(order) else None


def _nearest_sizes(size: int) -> str:
    # There is a prime between any number and its double, so this is far enough.
    sizes = sizes_with_plane(4 * size + 7)
    below = [each for each in sizes if each < size][-1:]
    above = [each for each in sizes if each > size][:1]
    return " or ".join(map(str, below + above))


def _prime_of(order: int) -> int | None:
    """Return the prime of which the number is a power, or None."""
    if order < 2:
        return None
    prime = next((factor for factor in range(2, isqrt(order) + 1) if order % factor == 0), order)
    while order % prime == 0:
        order //= prime
    return prime if order == 1 else None


# Finite fields.  The points of the plane of order q are the one-dimensional subspaces of GF(q^3)
# over GF(q) and its lines the two-dimensional ones.  With a generator g of the field, every element
# other than 0 is a power of g; two of them lie in the same point exactly if their exponents are
# equal modulo N = q^2 + q + 1, because the powers of g^N are GF(q) without 0.  Multiplication by g
# moves points to points and lines to lines: that is the cyclic shift.

Element: TypeAlias = tuple[int, ...]
"""An element of GF(p^m): coefficients modulo p of a polynomial in g of degree less than m, the
constant first.
"""


@cache
def _difference_set(order: int) -> tuple[int, ...]:
    """Return Singer's difference set: the exponents modulo N of the line spanned by 1 and g."""
    prime = _prime_of(order)
    assert prime is not None, "the order of a plane is a power of a prime"
    degree = (
        next(exponent for exponent in range(1, order) if prime**exponent == order)
        if prime < order
        else 1
    )
    powers = _powers_of_generator(prime, 3 * degree)
    exponent_of = {element: exponent for exponent, element in enumerate(powers)}
    size = _size_of(order)
    generator = powers[1]
    scalars = [(0,) * (3 * degree), *powers[::size]]  # GF(q)
    line = {exponent_of[_sum(generator, scalar, prime)] % size for scalar in scalars} | {0}
    return tuple(sorted(line))


def _sum(one: Element, other: Element, prime: int) -> Element:
    return tuple((left + right) % prime for left, right in zip(one, other, strict=True))


def _powers_of_generator(prime: int, degree: int) -> list[Element]:
    """List all elements of GF(p^m) but 0, as the powers of a generator: 1, g, g^2, ...

    Polynomials are tried one after the other as the one that g is a root of.  If the powers of g
    run through all p^m - 1 elements before they repeat, each of these has an inverse, and so the
    ring is the field.
    """
    one: Element = (1,) + (0,) * (degree - 1)
    for lower in product(range(prime), repeat=degree):
        if lower[0] == 0:
            continue  # g would divide zero
        powers, element = [one], _times_generator(one, lower, prime)
        while element != one:
            powers.append(element)
            element = _times_generator(element, lower, prime)
        if len(powers) == prime**degree - 1:
            return powers
    raise AssertionError(f"every finite field has a generator, also GF({prime}^{degree})")


def _times_generator(element: Element, lower: Element, prime: int) -> Element:
    """Multiply by g, where g^m is the polynomial with the given coefficients."""
    carry = element[-1]
    return tuple(
        (below + carry * coefficient) % prime
        for below, coefficient in zip((0, *element[:-1]), lower, strict=True)
    )
