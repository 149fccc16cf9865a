/* Ricart and Agrawala as one writes it for Spin: a process for each participant, a channel for each link, and who reads
   and writes it declared, so that Spin's own reduction has something to hold on to.  -DN=3 or -DN=4; numbers as with TICK=0.

   To enter is a step of its own here, because only then are all other steps invisible.  So its states are not those of
   ricart_agrawala.pml, and are counted for information only. */

#define IDLE 0
#define WAITING 1
#define INSIDE 2
#define DONE 3

#define REQUEST(number) ((number) << 1)
#define REPLY 1

#if N == 3
#define ALL(F) F(0) F(1) F(2)
#define OTHERS_0(F) F(0, 1) F(0, 2)
#define OTHERS_1(F) F(1, 0) F(1, 2)
#define OTHERS_2(F) F(2, 0) F(2, 1)
#else
#define ALL(F) F(0) F(1) F(2) F(3)
#define OTHERS_0(F) F(0, 1) F(0, 2) F(0, 3)
#define OTHERS_1(F) F(1, 0) F(1, 2) F(1, 3)
#define OTHERS_2(F) F(2, 0) F(2, 1) F(2, 3)
#define OTHERS_3(F) F(3, 0) F(3, 1) F(3, 2)
#endif
#define EVERYBODY ((1 << N) - 1)

#define LINK_OF(i, j) chan link_##i##j = [2] of { byte };
#define LINKS_OF(i) OTHERS_##i(LINK_OF)
ALL(LINKS_OF)
byte inside;

#define MINE(i, j) xs link_##i##j; xr link_##j##i;
#define SEND_REQUEST(i, j) link_##i##j!REQUEST(stamp);
#define SEND_REPLY(i, j) if :: deferred & (1 << j) -> link_##i##j!REPLY :: else fi;
#define CAME_FIRST(i, j) (stamp < (message >> 1) || (stamp == (message >> 1) && i < j))
#define RECEIVE(i, j) \
	:: d_step { link_##j##i?message -> \
		if \
		:: message == REPLY -> missing = missing & ~(1 << j) \
		:: else -> \
			clock = (clock > (message >> 1) -> clock : (message >> 1)); \
			if \
			:: stage == INSIDE || (stage == WAITING && CAME_FIRST(i, j)) -> deferred = deferred | (1 << j) \
			:: else -> link_##i##j!REPLY \
			fi \
		fi; \
		message = 0 \
	}

#define PARTICIPANT(i) \
active proctype participant_##i() { \
	byte clock, stage, stamp, missing, deferred, message; \
	OTHERS_##i(MINE) \
end:	do \
	:: d_step { stage == IDLE -> \
		clock++; \
		stage = WAITING; \
		stamp = clock; \
		missing = EVERYBODY & ~(1 << i); \
		OTHERS_##i(SEND_REQUEST) \
	} \
	OTHERS_##i(RECEIVE) \
	:: d_step { stage == WAITING && missing == 0 -> stage = INSIDE } ; d_step { inside++; assert(inside == 1) } \
	:: stage == INSIDE -> inside--; d_step { stage = DONE; OTHERS_##i(SEND_REPLY) deferred = 0 } \
	od \
}
ALL(PARTICIPANT)
