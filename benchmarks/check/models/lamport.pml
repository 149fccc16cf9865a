/* Lamport's queue of which everybody has a copy: three processes that may each enter once, links that keep the order.

   A request, a receipt and a release is one step each, with all that it sends.  The one place of control means that a state
   is nothing but the variables.  All loops over the processes are unfolded. */

/* Where a process stands; each asks at most once. */
#define IDLE 0
#define WAITING 1
#define INSIDE 2
#define DONE 3

/* A message: its stamp, below 32, and its kind.  At most three are under way on a link, the first one in the lower bits. */
#define REQUEST 1
#define ACKNOWLEDGEMENT 2
#define RELEASE 3
#define WIDTH 7
#define KIND(message) ((message) & 3)
#define STAMP(message) ((message) >> 2)
#define FIRST(i, j) (link_##i##j & ((1 << WIDTH) - 1))
#define TAKE(i, j) link_##i##j = link_##i##j >> WIDTH
#define SEND(i, j, kind) \
	link_##i##j = link_##i##j | (((clock_##i << 2) | kind) << (!link_##i##j -> 0 : (link_##i##j < (1 << WIDTH) -> WIDTH : 2 * WIDTH)))

#define ALL(F) F(0) F(1) F(2)
#define OTHERS_0(F) F(0, 1) F(0, 2)
#define OTHERS_1(F) F(1, 0) F(1, 2)
#define OTHERS_2(F) F(2, 0) F(2, 1)
#define PAIRS(F) F(0, 1) F(0, 2) F(1, 0) F(1, 2) F(2, 0) F(2, 1)

/* queue_ij is the stamp of the request of j in the copy of i, 0 where there is none; silent: from whom nothing later has come. */
#define PROCESS(i) byte clock_##i; byte stage_##i; byte silent_##i; byte queue_##i##0; byte queue_##i##1; byte queue_##i##2;
#define LINK_OF(i, j) unsigned link_##i##j : 21;
ALL(PROCESS)
PAIRS(LINK_OF)
hidden byte message; /* the one at hand */

#define IS_INSIDE(i) || stage_##i == INSIDE
#define WAITS(i) || stage_##i == WAITING
#define IS_BUSY(i, j) || link_##i##j

#define SEND_REQUEST(i, j) SEND(i, j, REQUEST);
#define ASK(i) \
	:: d_step { stage_##i == IDLE -> \
		clock_##i++; \
		stage_##i = WAITING; \
		queue_##i##i = clock_##i; \
		silent_##i = 7 & ~(1 << i); \
		OTHERS_##i(SEND_REQUEST) \
	}

#define HEAR(i, j) \
	assert(clock_##i < 31); \
	clock_##i = (clock_##i > STAMP(message) -> clock_##i : STAMP(message)) + 1; \
	if \
	:: queue_##i##i && (STAMP(message) > queue_##i##i || (STAMP(message) == queue_##i##i && j > i)) -> silent_##i = silent_##i & ~(1 << j) \
	:: else \
	fi

#define IS_BEFORE(i, j) && (!queue_##i##j || queue_##i##i < queue_##i##j || (queue_##i##i == queue_##i##j && i < j))
#define ENTER(i) \
	if \
	:: stage_##i == WAITING && silent_##i == 0 OTHERS_##i(IS_BEFORE) -> \
		assert(!(false ALL(IS_INSIDE))); \
		stage_##i = INSIDE \
	:: else \
	fi

#define RECEIVE(i, j) \
	:: d_step { link_##j##i -> \
		message = FIRST(j, i); \
		TAKE(j, i); \
		HEAR(i, j); \
		if \
		:: KIND(message) == REQUEST -> \
			queue_##i##j = STAMP(message); \
			SEND(i, j, ACKNOWLEDGEMENT) \
		:: KIND(message) == RELEASE -> \
			queue_##i##j = 0 \
		:: else \
		fi; \
		ENTER(i) \
	}

#define SEND_RELEASE(i, j) SEND(i, j, RELEASE);
#define LEAVE(i) \
	:: d_step { stage_##i == INSIDE -> \
		clock_##i++; \
		stage_##i = DONE; \
		queue_##i##i = 0; \
		OTHERS_##i(SEND_RELEASE) \
	}

active proctype all() {
end:	do
	ALL(ASK)
	PAIRS(RECEIVE)
	ALL(LEAVE)
	:: d_step { !(false PAIRS(IS_BUSY) ALL(IS_INSIDE)) && (false ALL(WAITS)) -> assert(false) } /* a deadlock */
	od
}
