/* Ricart and Agrawala, N processes that may each enter once, links that keep the order.

   -DN=3 or -DN=4; -DTICK=0: only requests carry a number, as in the paper; -DTICK=1: every event ticks, every message carries the clock.

   A request, a receipt and a release is one step each, with all that it sends.  The one place of control means that a state
   is nothing but the variables.  Processes are 0 to N-1; all loops over them are unfolded. */

#ifndef TICK
#define TICK 0
#endif

/* Where a process stands; each asks at most once. */
#define IDLE 0
#define WAITING 1
#define INSIDE 2
#define DONE 3

/* A message: its number, and whether it is a reply.  At most two are under way on a link, the first one in the lower bits. */
#if TICK
#define WIDTH 6
#define LINK short
#else
#define WIDTH 4
#define LINK byte
#endif
#define REQUEST(number) ((number) << 1)
#define REPLY(number) (((number) << 1) | 1)
#define NUMBER(message) ((message) >> 1)
#define IS_REPLY(message) ((message) & 1)
#define FIRST(i, j) (link_##i##j & ((1 << WIDTH) - 1))
#define TAKE(i, j) link_##i##j = link_##i##j >> WIDTH
#define SEND(i, j, message) link_##i##j = (link_##i##j -> link_##i##j | ((message) << WIDTH) : (message))

#if N == 3
#define ALL(F) F(0) F(1) F(2)
#define OTHERS_0(F) F(0, 1) F(0, 2)
#define OTHERS_1(F) F(1, 0) F(1, 2)
#define OTHERS_2(F) F(2, 0) F(2, 1)
#define PAIRS(F) OTHERS_0(F) OTHERS_1(F) OTHERS_2(F)
#else
#define ALL(F) F(0) F(1) F(2) F(3)
#define OTHERS_0(F) F(0, 1) F(0, 2) F(0, 3)
#define OTHERS_1(F) F(1, 0) F(1, 2) F(1, 3)
#define OTHERS_2(F) F(2, 0) F(2, 1) F(2, 3)
#define OTHERS_3(F) F(3, 0) F(3, 1) F(3, 2)
#define PAIRS(F) OTHERS_0(F) OTHERS_1(F) OTHERS_2(F) OTHERS_3(F)
#endif
#define EVERYBODY ((1 << N) - 1)

/* Sets of processes are bits: who has not replied yet, and who gets a reply later. */
#define PROCESS(i) byte clock_##i; byte stage_##i; byte stamp_##i; byte missing_##i; byte deferred_##i;
#define LINK_OF(i, j) LINK link_##i##j;
ALL(PROCESS)
PAIRS(LINK_OF)
hidden short message; /* the one at hand */

#define IS_INSIDE(i) || stage_##i == INSIDE
#define WAITS(i) || stage_##i == WAITING
#define IS_BUSY(i, j) || link_##i##j

#define SEND_REQUEST(i, j) SEND(i, j, REQUEST(stamp_##i));
#define ASK(i) \
	:: d_step { stage_##i == IDLE -> \
		clock_##i++; \
		stage_##i = WAITING; \
		stamp_##i = clock_##i; \
		missing_##i = EVERYBODY & ~(1 << i); \
		OTHERS_##i(SEND_REQUEST) \
	}

#define HEAR(i) clock_##i = (clock_##i > NUMBER(message) -> clock_##i : NUMBER(message)) + TICK
#define CAME_FIRST(i, j) (stamp_##i < NUMBER(message) || (stamp_##i == NUMBER(message) && i < j))
#define RECEIVE(i, j) \
	:: d_step { link_##j##i -> \
		message = FIRST(j, i); \
		TAKE(j, i); \
		HEAR(i); \
		if \
		:: IS_REPLY(message) -> \
			missing_##i = missing_##i & ~(1 << j); \
			if \
			:: stage_##i == WAITING && missing_##i == 0 -> \
				assert(!(false ALL(IS_INSIDE))); \
				stage_##i = INSIDE \
			:: else \
			fi \
		:: else -> \
			if \
			:: stage_##i == INSIDE || (stage_##i == WAITING && CAME_FIRST(i, j)) -> deferred_##i = deferred_##i | (1 << j) \
			:: else -> SEND(i, j, REPLY(clock_##i * TICK)) \
			fi \
		fi \
	}

#define SEND_REPLY(i, j) if :: deferred_##i & (1 << j) -> SEND(i, j, REPLY(clock_##i * TICK)) :: else fi;
#define RELEASE(i) \
	:: d_step { stage_##i == INSIDE -> \
		clock_##i = clock_##i + TICK; \
		stage_##i = DONE; \
		OTHERS_##i(SEND_REPLY) \
		deferred_##i = 0 \
	}

active proctype all() {
end:	do
	ALL(ASK)
	PAIRS(RECEIVE)
	ALL(RELEASE)
	:: d_step { !(false PAIRS(IS_BUSY) ALL(IS_INSIDE)) && (false ALL(WAITS)) -> assert(false) } /* a deadlock */
	od
}
