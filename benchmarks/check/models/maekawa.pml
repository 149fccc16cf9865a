/* Maekawa's votes without a cure for deadlocks: three processes with the voting sets {0, 1}, {1, 2} and {2, 0}, each may enter
   once, links that keep the order.

   A request, a receipt and a release is one step each, with all that it sends, also to oneself.  The one place of control
   means that a state is nothing but the variables. */

/* Where a process stands; each asks at most once. */
#define IDLE 0
#define WAITING 1
#define INSIDE 2
#define DONE 3

/* A message is its kind.  A link has room for four, the first one in the lower bits. */
#define REQUEST 1
#define VOTE 2
#define RELEASE 3
#define FIRST(i, j) (link_##i##j & 3)
#define TAKE(i, j) link_##i##j = link_##i##j >> 2
#define SEND(i, j, kind) \
	assert(link_##i##j < 64); \
	link_##i##j = link_##i##j | (kind << (!link_##i##j -> 0 : (link_##i##j < 4 -> 2 : (link_##i##j < 16 -> 4 : 6))))

#define ALL(F) F(0) F(1) F(2)
#define VOTERS(F) F(0, 0) F(0, 1) F(1, 1) F(1, 2) F(2, 2) F(2, 0) /* who asks, who votes */
#define PAIRS(F) F(0, 0) F(0, 1) F(0, 2) F(1, 0) F(1, 1) F(1, 2) F(2, 0) F(2, 1) F(2, 2)

/* votes: who has voted for i, as bits.  voted_for: 0 for nobody, else one more than the process.
   queue: who else wants its vote, in order of arrival, two bits each, one more than the process. */
#define PROCESS(i) byte stage_##i; byte votes_##i; byte voted_for_##i; byte queue_##i;
#define LINK_OF(i, j) byte link_##i##j;
ALL(PROCESS)
PAIRS(LINK_OF)
hidden byte message; /* the one at hand */

#define IS_INSIDE(i) || stage_##i == INSIDE
#define WAITS(i) || stage_##i == WAITING
#define IS_BUSY(i, j) || link_##i##j

#define ASK(i, own, other) \
	:: d_step { stage_##i == IDLE -> \
		stage_##i = WAITING; \
		votes_##i = 0; \
		SEND(i, own, REQUEST); \
		SEND(i, other, REQUEST) \
	}

#define ENTER(i, own, other) \
	if \
	:: stage_##i == WAITING && votes_##i == ((1 << own) | (1 << other)) -> \
		assert(!(false ALL(IS_INSIDE))); \
		stage_##i = INSIDE \
	:: else \
	fi

#define RELEASES(i, own, other) \
	:: d_step { stage_##i == INSIDE -> \
		stage_##i = DONE; \
		SEND(i, own, RELEASE); \
		SEND(i, other, RELEASE) \
	}

#define GIVE_VOTE(j) \
	if \
	:: !voted_for_##j && queue_##j -> \
		voted_for_##j = queue_##j & 3; \
		queue_##j = queue_##j >> 2; \
		if \
		:: voted_for_##j == 1 -> SEND(j, 0, VOTE) \
		:: voted_for_##j == 2 -> SEND(j, 1, VOTE) \
		:: voted_for_##j == 3 -> SEND(j, 2, VOTE) \
		fi \
	:: else \
	fi

#define RECEIVE(i, j, own, other) \
	:: d_step { link_##j##i -> \
		message = FIRST(j, i); \
		TAKE(j, i); \
		if \
		:: message == VOTE -> \
			votes_##i = votes_##i | (1 << j); \
			ENTER(i, own, other) \
		:: message == REQUEST -> \
			queue_##i = queue_##i | ((j + 1) << (!queue_##i -> 0 : (queue_##i < 4 -> 2 : 4))); \
			GIVE_VOTE(i) \
		:: message == RELEASE -> \
			if \
			:: voted_for_##i == j + 1 -> voted_for_##i = 0 \
			:: else \
			fi; \
			GIVE_VOTE(i) \
		fi \
	}

active proctype all() {
end:	do
	ASK(0, 0, 1)
	ASK(1, 1, 2)
	ASK(2, 2, 0)
	RECEIVE(0, 0, 0, 1)
	RECEIVE(0, 1, 0, 1)
	RECEIVE(0, 2, 0, 1)
	RECEIVE(1, 0, 1, 2)
	RECEIVE(1, 1, 1, 2)
	RECEIVE(1, 2, 1, 2)
	RECEIVE(2, 0, 2, 0)
	RECEIVE(2, 1, 2, 0)
	RECEIVE(2, 2, 2, 0)
	RELEASES(0, 0, 1)
	RELEASES(1, 1, 2)
	RELEASES(2, 2, 0)
	:: d_step { !(false PAIRS(IS_BUSY) ALL(IS_INSIDE)) && (false ALL(WAITS)) -> assert(false) } /* a deadlock */
	od
}
