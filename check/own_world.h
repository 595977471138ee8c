/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The world in which lodic-check searches core/counter/counter.h: three objects whose words fall
 * into one bucket of two entries, and their program. The oracle notes who holds what from the
 * return of a get until the call of a put. A released object's bytes are poisoned until it lives
 * again, at the same address. So a reference that was forgotten shows as a use after free.
 */
#ifndef LODIC_CHECK_OWN_WORLD_H
#define LODIC_CHECK_OWN_WORLD_H

#include "check/case.h"
#include "core/counter/counter.h"

#define OWN_OBJECTS 3u
#define OWN_TOKENS 4u
#define OWN_TASKS 4u /* at most, in a scenario */

/* A scenario's arg. */
struct own_case {
	void (*tasks)(const struct own_case *c);
	enum counter_scheme scheme;
	bool packed;       /* all threads lack sequences */
	bool mixed;        /* which ones do is drawn */
	bool inline_calls; /* threads call the functions of lodic/counter.h */
	u32 nr_readers;
};

struct own_object {
	u64 *word;
	u64 *bytes; /* a line of its own: what it is made of */
	u64 *marks; /* and one of a word of each task, which a holder writes */
	/* The oracle; plain. */
	u64 nr_held;
	bool told[CHECK_MAX_TASKS];  /* a task that has said that it holds one */
	u64 marked[CHECK_MAX_TASKS]; /* last mark of each task */
	u64 put_at
		[CHECK_MAX_TASKS]; /* the same, when it put what it held as a query began */
	u64 nr_lives;
	u64 nr_killed;  /* kills that have begun, in all lives */
	u32 nr_killing; /* of these, those that have not returned */
	bool kill_done; /* a kill has returned: no get that begins now may succeed */
	bool released;
};

struct own_token {
	u64 token;
	u32 object;
	bool there;
};

struct own_world {
	const struct own_case *c;
	struct counter_domain domain;
	struct own_object objects[OWN_OBJECTS];
	struct own_token passed[OWN_TOKENS]; /* from one task to another */
	u32 nr_passed;
	u32 nr_kills; /* that returned "this call has killed it", in this life of object 0 */
	/* The kill under way: its object, its aborts, and the entries in which the first of these
	 * found the object's key without a gate. */
	u32 killing;
	u32 nr_aborts;
	u64 late;
	bool takers_done;
	u64 packed; /* mixed: a bit for each task that lacks sequences */
};

extern struct own_world *own;

void own_setup(const void *arg);
void own_finish(const void *arg);

/* A reference; false: refused. */
bool own_get(u32 object, u64 *ret_token);
/* One more, for a holder. */
u64 own_get_more(u32 object);
void own_put(u32 object, u64 token);
/* Uses what the caller holds: reads its bytes, writes its mark. */
void own_look(u32 object);
/* true: this call has killed it. It tries again where it had no fence. */
bool own_kill(u32 object);
/* The killed object was released: it lives again. */
void own_renew(u32 object);
/* Asks, while the caller holds a reference. */
void own_query(u32 object);
/* The caller says that it holds one. */
void own_tell(u32 object);
/* Asks without one. If the answer is no, each that said so has put it, and what it did is seen. */
void own_ask(u32 object);

#endif
