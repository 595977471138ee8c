/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The table of ranges, for the files that deal with holds: where a range is found, who waits for
 * it, and who has it. */
#ifndef LODIC_LIB_SERVICE_HOLD_HOLD_TABLE_H
#define LODIC_LIB_SERVICE_HOLD_HOLD_TABLE_H

#include "core/cache/hold.h"
#include "lib/service/hold/asker.h"
#include "lib/service/hold/hold_queue.h"
#include "lib/service/hold/lists.h"
#include "lib/service/tier/tier.h"

struct held_file;
struct held_range;
struct lodic_stat;
struct look_hold;

struct holding;

/* Ranges at once. A range's number says where in the table it stands. */
#define HOLD_PLACES ((u64)1 << 14)

/* Sizes of ranges, by powers of two. */
#define HOLD_CLASSES 64u

/* The memory of a file's ranges that requests find. */
struct hold_sum {
	u64 bytes;
	u32 id; /* of the file; those of an earlier one do not count */
};

/* What lies in a tier, what came there by a move, and what could not. */
struct hold_tier_sum {
	u64 nr, bytes, came, refused;
};
struct hold_moving;

struct holds {
	struct hold_room room;
	struct hold_queues queues;
	struct hold_loads loads;
	struct held_range **table;
	u32 *free_places;
	u64 nr_places, nr_free; /* places that were ever used; of these, free ones */
	u64 last_serial;      /* a program that asks a successor for it finds nothing */
	struct hold **chains; /* that others may join, by hash: hold_table_ask() */
	u32 nr_of_class[HOLD_CLASSES]; /* that are in chains */
	struct hold_sum *sums;         /* by file slot */
	struct hold_waiter *answers;
	u64 page_bytes;
	u64 alive; /* the value of the alive word while the service lives */
	u64 used_bytes, huge_bytes;
	/* Of ranges that a worker closes. Also of cancelled ones, but for those that do not come
	 * back. A range that wants room waits for these. */
	u64 leaving_bytes;
	struct hold_tier_sum tiers[NR_TIERS];
	struct hold_moving *moving; /* NULL: no range moves */
	u64 look_at, look_left;     /* hold_tier_run(): where, and how many places */
	bool look_waited;           /* for that, or for what moves then */
	u64 tick_at;
	bool searching; /* for room: hold_queue_search() was called */
	bool sweeping;  /* outdated ranges leave: the next turn looks for more */
	u32 probes, looks, begins; /* that this turn has left */
};

/* NULL: there are no holds. */
struct holds *hold_table(const struct holding *s);
/* The most bytes that holds may have. */
u64 hold_table_most(const struct holding *s);

/* What vouches for the held file f; node as in struct held_range. */
struct hold_file hold_table_file(const struct holding *s, const struct held_file *f,
                                 u32 node);
/* HD4: may anybody else have the memory? ctx is the struct held_range. */
bool hold_table_is_had(void *ctx);
/* core.had may have changed. */
void hold_table_note(struct holds *h, struct held_range *r);

/* A range in no queue; NULL: there is no place, or no memory. */
struct held_range *hold_table_new(struct holds *h);
void hold_table_free(struct holds *h, struct held_range *r);
/* NULL: there is no such number. */
struct held_range *hold_table_find(const struct holding *s, u64 number);

/* From now on hold_table_ask() finds r, before those that were linked earlier; or it does not. */
void hold_table_link(struct holds *h, struct held_range *r);
void hold_table_unlink(struct holds *h, struct held_range *r);
/* hold_ask(), for bytes [from, to) of file, which has this slot. Cost: three short chains for each
 * class of ranges that is as large. */
enum hold_answer hold_table_ask(struct holds *h, const struct hold_file *file, u32 slot,
                                u64 from, u64 to, struct hold **ret_hold);
static inline struct held_range *hold_table_range(struct hold *core)
{
	return (struct held_range *)core;
}

/* r is read for the asker, until it is settled. */
void hold_table_join_asker(struct held_range *r, struct hold_asker *asker);
/* All that wait for r get their answer, unless they have it. */
void hold_table_settle(struct holds *h, struct held_range *r, int error);

/* Process pid has been given r. */
void hold_table_charge(struct holds *h, struct held_range *r, int pid);

/* -EINPROGRESS: w waits until the range is settled, and then comes out of hold_table_settled().
 * Another value: it is settled already, by this error or 0. */
int hold_table_wait(struct holding *s, u64 number, struct hold_waiter *w);
/* The next that waits no more, with w->error; NULL: there is none. */
struct hold_waiter *hold_table_settled(struct holding *s);
/* The client has hung up. */
void hold_table_forget(struct hold_asker *asker);

/* How many places the table has; 0: there are no holds. */
u64 hold_table_nr_places(const struct holding *s);
/* What a look is told of the range at place of the table, but for ret->bytes. false: none is there
 * that has memory. s has a table. */
bool hold_table_look(const struct holding *s, u64 place, struct look_hold *ret);
/* The memory of the ranges of the held file f that requests find. */
u64 hold_table_bytes_of(const struct holding *s, const struct held_file *f);
void hold_table_stat(const struct holding *s, struct lodic_stat *stat);

#endif
