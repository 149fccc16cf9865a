/* Chang and Roberts' election in a one-way ring: N processes, each may call once, links that keep the order.

   -DN=5 to 7, and who stands where in the direction of travel: -DID_0=3 -DID_1=4 ... with the ids 1 to N.

   A call and a receipt is one step each, with what it sends.  The one place of control means that a state is nothing but the
   variables.  Each process remembers whom it takes for the leader.  All loops over the places are unfolded. */

/* A message: the id, and whether it is elected.  A link has room for seven, the first one in the lower bits. */
#define WIDTH 4
#define ELECTED 8
#define SEND(i, what) \
	assert(link_##i < (1 << 24)); \
	link_##i = link_##i | ((what) << (link_##i < (1 << 12) \
		-> (link_##i < 16 -> (!link_##i -> 0 : 4) : (link_##i < 256 -> 8 : 12)) \
		: (link_##i < (1 << 16) -> 16 : (link_##i < (1 << 20) -> 20 : 24))))

#if N == 5
#define ALL(F) F(0) F(1) F(2) F(3) F(4)
#define LINKS(F) F(4, 0) F(0, 1) F(1, 2) F(2, 3) F(3, 4)
#elif N == 6
#define ALL(F) F(0) F(1) F(2) F(3) F(4) F(5)
#define LINKS(F) F(5, 0) F(0, 1) F(1, 2) F(2, 3) F(3, 4) F(4, 5)
#else
#define ALL(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6)
#define LINKS(F) F(6, 0) F(0, 1) F(1, 2) F(2, 3) F(3, 4) F(4, 5) F(5, 6)
#endif

#define PROCESS(i) unsigned link_##i : 28; bool called_##i; bool participant_##i; unsigned leader_##i : 3; /* the link from i */
ALL(PROCESS)
hidden byte message; /* the one at hand */

#define IS_BUSY(i) || link_##i
#define HAS_CALLED(i) || called_##i
#define FOLLOWS(i) && leader_##i == N
#define CLAIMS(i) + (leader_##i == ID_##i)

#define CALL(i) \
	:: d_step { !called_##i -> \
		called_##i = true; \
		if \
		:: !participant_##i -> participant_##i = true; SEND(i, ID_##i) \
		:: else \
		fi \
	}

#define RECEIVE(left, i) \
	:: d_step { link_##left -> \
		message = link_##left & 15; \
		link_##left = link_##left >> WIDTH; \
		if \
		:: message > ELECTED -> \
			if \
			:: message != ELECTED + ID_##i -> \
				participant_##i = false; \
				leader_##i = message - ELECTED; \
				SEND(i, message) \
			:: else \
			fi \
		:: message > ID_##i && message < ELECTED -> \
			participant_##i = true; \
			SEND(i, message) \
		:: message == ID_##i -> \
			participant_##i = false; \
			leader_##i = ID_##i; \
			assert(0 ALL(CLAIMS) == 1); \
			SEND(i, ELECTED + ID_##i) \
		:: message < ID_##i -> \
			if \
			:: !participant_##i -> participant_##i = true; SEND(i, ID_##i) \
			:: else \
			fi \
		fi \
	}

active proctype all() {
end:	do
	ALL(CALL)
	LINKS(RECEIVE)
	/* At rest after a call, but not all follow the largest. */
	:: d_step { !(false ALL(IS_BUSY)) && (false ALL(HAS_CALLED)) && !(true ALL(FOLLOWS)) -> assert(false) }
	od
}
