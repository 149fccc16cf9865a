"""Election by terms among members that change, one at a time.

A configuration says who the members are: more than half of them elect a leader.  Neighbouring
configurations differ by one member, so each majority of the one meets each majority of the other.
A process counts by the newest configuration that it has stored, and votes for no candidate that has
an older one.  A new leader first writes the configuration anew, in its own term.  It changes it
only when a majority of the members has stored the present one in that term: then no process with
the change of an earlier leader, which may still be stored somewhere, can win an election any more.

A process that is no member follows the leader, but it neither stands nor counts.  It becomes a
member only after it has stored the configuration, so it is up.  A leader that is removed leads on
until a majority of the others has stored that, and then resigns.

A process may begin without any configuration: it is new, or it takes the place of one that has lost
its memory and was removed.  It does not vote before it has heard of a configuration.  By then its
term is not older than that of the removal, and no candidate that counts its former self can win.

Source   Schultz, Dardik, Tripakis: Formal verification of a distributed dynamic reconfiguration
         protocol, CPP 2022 (MongoRaftReconfig); Ongaro's thesis, 4.1, and the correction of
         2015, raft-dev: bug in single-server membership changes.
Assumes  stable memory; E1 needs nothing else.  E2, E3 and E4: more than half of the members of the
         newest configuration stay up and connected, no leader is removed, and in the end messages
         and heartbeats arrive within the shortest timeout.
Cost     O(n) messages: 6(n-1) for an undisturbed election, then n-1 per heartbeat period; 2(n-1)
         per change.
Ensures  E1, E2, E3, E4; E1 in the scope of a term, under any timing, with crashes, recoveries and
         cuts, and whatever members are added and removed.
Differs  The configuration is the only thing that is replicated, so there is no log, and none of the
         paper's rules about one.  What is recorded elsewhere by a majority, as loans of a lock are,
         must be recorded by a majority of the new members before the next change: the process
         above says so (`confirm`).  All members weigh the same: with weights, majorities of
         neighbouring configurations need not meet.  The configuration has the term of the last
         leader, so a process knows how many elections have failed since: its patience doubles with
         each, up to 8 times the usual one, and is the usual one when a leader is heard.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from habemus.algorithms.election.terms import LEADING, STANDING, Beat, Heartbeat, Terms, Vote
from habemus.core import (
    Const,
    Durable,
    Message,
    MistakeInPlan,
    ProcessId,
    Span,
    System,
    Timer,
    Value,
    request,
    upon,
    whenever,
)
from habemus.core.system import complete
from habemus.problems.election import Leader, Location, Members


class Configuration(Value):
    """The members.  The newer of two configurations has the later term, then the larger version."""

    term: int  # of the leader that wrote it
    version: int  # how many changes have led to it
    members: tuple[ProcessId, ...]  # none: this process has not heard of a configuration yet
    book: tuple[Location, ...] = ()  # of members and others; passed on, and not used here


class Canvass(Message):
    """A candidacy, and the age of the candidate's configuration."""

    term: int
    configured: int  # the term of the configuration
    version: int


class Install(Message):
    """A heartbeat to a process that is not known to have stored the configuration."""

    term: int
    configuration: Configuration


class Installed(Message):
    term: int
    version: int


class Change(Timer):
    """Time for the next change of a run or a search; otherwise an operator asks for it."""

    term: int


class TermsMembers(Terms):
    name = "terms-members"
    shows = ("term", "stage", "voted_for", "leader", "configuration")  # type: ignore[assignment]
    indications = (Leader, Members)  # type: ignore[assignment]  # one more than every election

    first: Const[int] = 0  # processes 1 to this one are the first members; 0: all
    changes: Const[int] = 0  # how many changes a run makes
    movable: Const[tuple[int, ...]] = ()  # the processes that it adds and removes
    every: Const[Span] = 200_000  # how long after the one before
    confirms: Const[bool] = False  # whether a change waits for the process above

    configuration: Durable[Configuration] = Configuration(0, 0, ())
    installed: set[ProcessId] = set()  # processes that have stored it, as its leader knows
    confirmed: int = -1  # the newest version that the process above has confirmed in this term

    # Counting.

    def is_majority(self, processes: Iterable[ProcessId]) -> bool:
        members = self.configuration.members
        return 2 * len([each for each in members if each in processes]) > len(members)

    def has_majority(self) -> bool:
        return self.is_majority(self.supporters)

    def is_member(self) -> bool:
        return self.me in self.configuration.members

    # Standing and voting.

    def call(self) -> None:
        if self.is_member():
            super().call()

    def failed_elections(self) -> int:
        """Return how many terms had no leader since the one that wrote the configuration."""
        return self.term - self.configuration.term

    def stand(self) -> None:
        self.adopt(self.term + 1)
        self.stage = STANDING
        self.voted_for = self.me
        self.supporters = {self.me}
        mine = self.configuration
        self.broadcast(Canvass(self.term, mine.term, mine.version))

    @upon(Canvass)
    def vote_once(  # type: ignore[override]  # a Canvass takes the place of a Candidacy
        self, sender: ProcessId, canvass: Canvass
    ) -> None:
        if (
            self.is_current(canvass.term)
            and self.voted_for in (None, sender)
            and self.is_configured()
            and not self.has_newer_than(canvass)
        ):
            self.voted_for = sender
            self.send(Vote(self.term), to=sender)

    def is_configured(self) -> bool:
        return bool(self.configuration.members)

    def has_newer_than(self, canvass: Canvass) -> bool:
        mine = self.configuration
        return (mine.term, mine.version) > (canvass.configured, canvass.version)

    # The configuration: written by the leader, stored by all.

    def lead(self) -> None:
        now = self.configuration
        self.write(now.version, now.members, now.book)
        if self.configuration.version < self.changes:
            self.set_timer(Change(self.term), after=self.every)
        super().lead()

    def write(
        self, version: int, members: tuple[ProcessId, ...], book: tuple[Location, ...]
    ) -> None:
        self.configuration = Configuration(self.term, version, members, book)
        self.installed = {self.me}
        self.confirmed = -1

    def beat(self, _: Beat) -> None:
        for peer in self.peers:
            if peer in self.installed:
                self.send(Heartbeat(self.term), to=peer)
            else:
                self.send(Install(self.term, self.configuration), to=peer)
        self.set_timer(Beat(), after=self.period)

    @upon(Install)
    def install(self, sender: ProcessId, install: Install) -> None:
        self.stay_loyal(sender, Heartbeat(install.term))
        if install.term == self.term and not install.configuration < self.configuration:
            self.store(install.configuration)
            self.send(Installed(self.term, self.configuration.version), to=sender)

    def store(self, configuration: Configuration) -> None:
        before, self.configuration = self.configuration, configuration
        if (before.version, before.members, before.book) != (
            configuration.version,
            configuration.members,
            configuration.book,
        ):
            self.indicate_members()

    def indicate_members(self) -> None:
        now = self.configuration
        self.indicate(Members(now.term, now.version, now.members, now.book))

    @upon(Installed)
    def count_installed(self, sender: ProcessId, installed: Installed) -> None:
        if (
            self.is_current(installed.term)
            and self.stage == LEADING
            and installed.version == self.configuration.version
        ):
            self.installed.add(sender)

    # Changing the members.

    def may_change(self) -> bool:
        """Return whether this process leads, a majority of the members has stored the configuration
        in this term, and nothing depends on earlier members any more.
        """
        return (
            self.stage == LEADING
            and self.is_majority(self.installed)
            and (not self.confirms or self.confirmed == self.configuration.version)
        )

    @request
    def add(self, process: ProcessId) -> None:
        """Add a process that has stored the configuration, and so is up."""
        members = self.configuration.members
        if self.may_change() and process in self.installed and process not in members:
            self.change(tuple(sorted((*members, process))))

    @request
    def remove(self, process: ProcessId) -> None:
        """Remove a member, unless it is the last one."""
        members = self.configuration.members
        if self.may_change() and process in members and len(members) > 1:
            self.change(tuple(each for each in members if each != process))

    @request
    def rewrite(self, book: tuple[Location, ...]) -> None:
        """Change what is known of the processes, and not the members: introduce a process that may
        become one, or forget one that was removed.
        """
        named = [each.process for each in book]
        if self.may_change() and all(each in named for each in self.configuration.members):
            self.change(self.configuration.members, book)

    def change(
        self, members: tuple[ProcessId, ...], book: tuple[Location, ...] | None = None
    ) -> None:
        now = self.configuration
        self.write(now.version + 1, members, now.book if book is None else book)
        self.indicate_members()
        self.beat(Beat())

    def unconfirmed(self) -> tuple[int, int] | None:
        is_confirmed = not self.confirms or self.confirmed == self.configuration.version
        if self.stage != LEADING or is_confirmed:
            return None
        return self.term, self.configuration.version

    @request
    def confirm(self, version: int) -> None:
        """Hear from the process above that all it relies on is recorded by a majority of these
        members.
        """
        if self.stage == LEADING and version == self.configuration.version:
            self.confirmed = version

    @upon(Change)
    def change_some_member(self, change: Change) -> None:
        """Add or remove one of the processes that the run moves."""
        if change.term != self.term or self.stage != LEADING:
            return
        members = self.configuration.members
        to_remove = [each for each in self.movable if each in members and len(members) > 1]
        to_add = [each for each in self.movable if each in self.installed and each not in members]
        if self.may_change() and (to_add or to_remove):
            process = self.choose(sorted((*to_add, *to_remove)))
            if process in members:
                self.remove(process)
            else:
                self.add(process)
        if self.configuration.version < self.changes:
            self.set_timer(change, after=self.every)

    def has_left(self) -> bool:
        return self.stage == LEADING and not self.is_member() and self.is_majority(self.installed)

    @whenever(has_left)
    def leave(self) -> None:
        """Resign, now that no majority counts by the configuration with this process."""
        self.resign(next(each for each in self.configuration.members if each in self.installed))

    # Recovering.

    def on_recover(self) -> None:
        super().on_recover()
        self.indicate_members()  # the process above may have forgotten them

    def on_replaced(self, others: Sequence[Self], life: int) -> None:
        super().on_replaced(others, life)
        self.configuration = max(other.configuration for other in others)

    # What the catalog needs to know.

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return processes 1 to N, each connected to each, the first of which are members."""
        if options.get("weights"):
            raise MistakeInPlan(
                "members that change have no weights: majorities of two configurations might not"
                " meet; leave weights out"
            )
        everybody = tuple(range(1, size + 1))
        first = options.get("first", 0) or size
        if not 1 <= first <= size:
            raise MistakeInPlan(f"first={first}: the first members are 1 to {size} processes")
        for process in options.get("movable", ()):
            if process not in everybody:
                raise MistakeInPlan(f"movable: there is no process {process}")
        plan = cls(**{"configuration": Configuration(0, 0, everybody[:first]), **options})
        return System(dict.fromkeys(everybody, plan), complete(everybody), everybody)
