/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The world of holds and its oracle. See check/hold_world.h. */
#include "check/hold_world.h"

#define ALIVE_VALUE 42u /* of the first arena; the second one has the next */
/* Messages of one lodic_hold(): it asks, waits, asks again, and once more in vain. */
#define MAX_MESSAGES 3u

enum piece_end { PIECE_RUNS, PIECE_WHOLE, PIECE_BAD };

struct hold_world *hold_world;

bool hold_flag(void *arg)
{
	return *(bool *)arg;
}

/* ---- the kernel: memory ---- */

void hold_call(void)
{
	host_load_relaxed(&hold_world->calls);
}

/* HD5, by what is really there. */
static void room_check(void)
{
	u64 bytes = 0;

	for (u32 i = 0; i < HOLD_MEMORIES; i++)
		if (hold_world->memories[i].is_there)
			bytes += HOLD_UNIT;
	CHECK_ASSERT(bytes <= hold_world->room.used,
	             "HD5: memory that is there counts");
	CHECK_ASSERT(hold_world->room.used <= hold_world->room.most,
	             "no more counts than there is room for");
}

/* Somebody has closed m: does anybody still have it? */
static void memory_closed(struct hold_memory *m)
{
	if (m->service_has || m->nr_had > 0)
		return;
	m->is_there = false;
	check_poison(m->words, sizeof(m->words));
}

static void memory_put(struct hold_memory *m)
{
	CHECK_ASSERT(m->nr_had > 0, "what is closed was open");
	m->nr_had--;
	memory_closed(m);
}

static u32 memory_place(const struct hold_memory *m)
{
	return (u32)(m - hold_world->memories);
}

static struct hold_memory *memory_of(struct hold *h)
{
	return (struct hold_memory *)((u8 *)h - offsetof(struct hold_memory, hold));
}

/* fcntl(F_SETLEASE, F_WRLCK) by the service's own descriptor. */
static bool memory_is_had(void *ctx)
{
	const struct hold_memory *m = ctx;

	hold_call(), check_told();
	check_note("%s hold %llu", m->nr_had > 0 ? "somebody has" : "nobody has",
	           (unsigned long long)m->number);
	return m->nr_had > 0;
}

/* ---- workers ---- */

static bool worker_has_job(void *arg)
{
	(void)arg;
	return hold_world->nr_jobs > 0 || hold_world->service_done;
}

static enum piece_end worker_read(struct hold_memory *m, u32 piece)
{
	u64 at = m->range * HOLD_WORDS + piece, word;

	hold_call(); /* pread() */
	if (hold_world->disk_errs)
		return PIECE_BAD;
	word = m->version == HOLD_OTHER ? hold_truth(HOLD_OTHER, at)
	                                : host_load_relaxed(&hold_world->disk[at]);
	if (m->sealed)
		return PIECE_BAD;
	m->is_there = true;
	room_check();
	host_store_relaxed(&m->words[piece], word);
	return PIECE_WHOLE;
}

static void worker(void *arg)
{
	struct hold_memory *m;
	u32 piece;

	(void)arg;
	for (;;) {
		check_wait(worker_has_job, NULL);
		if (hold_world->nr_jobs == 0)
			return;
		hold_world->nr_jobs--;
		m = hold_world->jobs[hold_world->nr_jobs].memory;
		piece = hold_world->jobs[hold_world->nr_jobs].piece;
		/* The unlock: O40, O42. */
		host_store_release(&m->ended[piece], worker_read(m, piece));
	}
}

/* ---- the service ---- */

static bool processes_done(void)
{
	for (u32 i = 0; i < HOLD_PROCESSES; i++)
		if (hold_world->processes[i].task &&
		    !check_is_done(hold_world->processes[i].task))
			return false;
	return true;
}

static bool memory_has_ended_piece(const struct hold_memory *m)
{
	for (u32 i = 0; i < HOLD_PIECES; i++)
		if (m->number && m->ended[i] != PIECE_RUNS)
			return true;
	return false;
}

/* Does the service want m's room? Not before it was given: somebody waits for it. */
static bool service_wants(const struct hold_memory *m)
{
	return (m->hold.state == HOLD_SHARED || m->hold.state == HOLD_PAST) &&
	       ((hold_world->c->pressure && m->was_given) || processes_done());
}

static bool service_has_work(void *arg)
{
	(void)arg;
	for (u32 i = 0; i < HOLD_PROCESSES; i++)
		if (hold_world->processes[i].asked)
			return true;
	for (u32 i = 0; i < HOLD_MEMORIES; i++)
		if (memory_has_ended_piece(&hold_world->memories[i]) ||
		    (service_wants(&hold_world->memories[i]) &&
		     hold_world->memories[i].nr_had == 0))
			return true;
	for (u32 i = 0; i < HOLD_MEMORIES; i++)
		if (hold_world->memories[i].number)
			return false;
	return processes_done();
}

/* A GOING hold: its memory goes back to the kernel, then its bytes to the room. */
static void service_close(struct hold_memory *m)
{
	struct hold **at = &hold_world->first;

	room_check();
	hold_call(); /* close() */
	m->service_has = false;
	memory_closed(m);
	hold_end(&m->hold);
	check_note("hold %llu has gone", (unsigned long long)m->number);
	for (; *at != &m->hold; at = &(*at)->next)
		CHECK_ASSERT(*at, "a hold that ends is in the list");
	*at = m->hold.next;
	m->number = 0;
	room_check();
}

/* Is nothing left to read? Then it is sealed and published. */
static void service_settle(struct hold_memory *m)
{
	hold_check(&m->hold);
	if (!hold_is_read(&m->hold))
		return;
	hold_call(); /* fcntl(F_ADD_SEALS) */
	m->sealed = !hold_world->mapping_left;
	m->good = m->good && m->sealed;
	if (!hold_publish(&m->hold, m->sealed)) {
		service_close(m);
		return;
	}
	check_note("hold %llu is shared", (unsigned long long)m->number);
	hold_check(&m->hold);
}

static void service_pieces(struct hold_memory *m)
{
	for (u32 i = 0; i < HOLD_PIECES; i++) {
		u64 end = host_load_acquire(&m->ended[i]); /* the lock */

		if (!m->number || end == PIECE_RUNS)
			continue;
		CHECK_ASSERT(m->hold.state == HOLD_LOADING,
		             "HD9: LOADING while a worker may write it");
		m->ended[i] = PIECE_RUNS;
		m->good = m->good && end == PIECE_WHOLE;
		hold_piece_end(&m->hold, end == PIECE_WHOLE);
		service_settle(m);
	}
}

/* Opens a description, sends it, and closes it. */
static void service_give(struct hold_process *p, struct hold_memory *m)
{
	CHECK_ASSERT(m->sealed, "HD3: sealed before it is given");
	CHECK_ASSERT(m->number && m->service_has, "what is given is there");
	m->nr_had++;
	m->was_given = true;
	hold_call(); /* sendmsg() */
	if (!p->dead) {
		m->nr_had++;
		p->sent[memory_place(m)]++;
	}
	p->given = m;
	p->answer = HOLD_GIVE;
	p->answered = true;
	hold_call(); /* close() */
	memory_put(m);
}

static void service_answer(struct hold_process *p, enum hold_answer answer, u64 number)
{
	p->answer = answer;
	p->number = number;
	p->answered = true;
}

/* Memory for a new hold; NULL: no room. */
static struct hold_memory *service_begin(const struct hold_request *r)
{
	struct hold_memory *m = hold_world->memories;
	u64 range = r->from / HOLD_WORDS, from = range * HOLD_RANGE_BYTES;

	for (u32 i = 0; i < HOLD_MEMORIES; i++)
		CHECK_ASSERT(!m[i].number || !m[i].good || m[i].range != range ||
		                     m[i].version != r->version,
		             "HD7: a range is in memory once");
	while (m < hold_world->memories + HOLD_MEMORIES && m->number)
		m++;
	if (m == hold_world->memories + HOLD_MEMORIES)
		return NULL;
	if (!hold_begin(&m->hold, &hold_world->room, &r->file, from,
	                from + HOLD_RANGE_BYTES, HOLD_UNIT, HOLD_PIECES))
		return NULL;
	check_revive(m->words, sizeof(m->words));
	for (u32 i = 0; i < HOLD_WORDS; i++)
		m->words[i] = 0;
	m->number = ++hold_world->last_number;
	m->version = r->version;
	m->range = (u32)range;
	m->good = true;
	m->service_has = true;
	m->sealed = m->was_given = false;
	m->hold.next = hold_world->first;
	hold_world->first = &m->hold;
	room_check();
	return m;
}

/* All pieces to the workers. */
static void service_read(struct hold_memory *m)
{
	for (u32 piece = 0; hold_piece_begin(&m->hold); piece++) {
		CHECK_ASSERT(hold_world->nr_jobs < HOLD_MEMORIES * HOLD_PIECES,
		             "HD9: no job outlives its hold");
		hold_world->jobs[hold_world->nr_jobs].memory = m;
		hold_world->jobs[hold_world->nr_jobs++].piece = piece;
		hold_call(); /* the queue's lock */
	}
	service_settle(m); /* the proof may have gone already */
}

static void service_request(struct hold_process *p)
{
	const struct hold_request *r = &p->request;
	struct hold_memory *m = hold_world->memories;
	struct hold *h;

	p->asked = false;
	hold_call(); /* recvmsg() */
	if (r->number) {
		while (m < hold_world->memories + HOLD_MEMORIES &&
		       m->number != r->number)
			m++;
		if (m < hold_world->memories + HOLD_MEMORIES && hold_pass_on(&m->hold))
			service_give(p, m);
		else
			service_answer(p, HOLD_NONE, 0);
		return;
	}
	if (r->file.proof == &hold_world->proofs[0] && hold_world->unmapped) {
		service_answer(p, HOLD_NONE, 0);
		return;
	}
	switch (hold_ask(hold_world->first, &r->file, r->from * 8, r->to * 8, &h)) {
	case HOLD_GIVE: service_give(p, memory_of(h)); return;
	case HOLD_WAIT: service_answer(p, HOLD_WAIT, memory_of(h)->number); return;
	case HOLD_NONE: break;
	}
	/* This service makes no hold of two ranges. */
	m = r->to <= (r->from / HOLD_WORDS + 1) * HOLD_WORDS && hold_vouch(&r->file)
	            ? service_begin(r)
	            : NULL;
	service_answer(p, m ? HOLD_WAIT : HOLD_NONE, m ? m->number : 0);
	if (m)
		service_read(m);
}

/* The lease thread has said that the first arena's proofs have ended. When that arena ends,
 * its memory goes. */
static void service_outdate(void)
{
	bool ends = hold_world->headers[0].alive == ARENA_DEAD;
	u32 i;

	for (i = 0; i < HOLD_MEMORIES; i++) {
		struct hold_memory *m = &hold_world->memories[i];

		if (!m->number || m->version != HOLD_BEFORE)
			continue;
		m->good = false;
		hold_outdate(&m->hold);
		service_settle(m);
	}
	hold_world->broken = false;
	hold_world->unmapped = ends;
	if (ends) {
		check_poison(&hold_world->headers[0], sizeof(struct arena_header));
		check_poison(&hold_world->proofs[0], sizeof(struct file_proof));
	}
}

static void service(void *arg)
{
	u32 i;

	(void)arg;
	for (;;) {
		check_wait(service_has_work, NULL);
		for (i = 0; i < HOLD_MEMORIES; i++)
			if (memory_has_ended_piece(&hold_world->memories[i]))
				service_pieces(&hold_world->memories[i]);
		for (i = 0; i < HOLD_PROCESSES; i++)
			if (hold_world->processes[i].asked) {
				check_told();
				service_request(&hold_world->processes[i]);
			}
		if (hold_world->broken && host_choose(2))
			service_outdate();
		for (i = 0; i < HOLD_MEMORIES; i++) {
			struct hold_memory *m = &hold_world->memories[i];

			if (service_wants(m) && hold_leave(&m->hold, memory_is_had, m))
				service_close(m);
		}
		if (processes_done() && !hold_world->first)
			break;
	}
	hold_world->service_done = true;
}

/* ---- processes ---- */

static struct hold_request process_request(u32 version, u64 from, u64 to)
{
	u32 arena = version == HOLD_OTHER;

	return (struct hold_request){
		.file = { &hold_world->proofs[arena], &hold_world->headers[arena].alive,
		          ALIVE_VALUE + arena,
		          version == HOLD_AFTER ? hold_world->again_id : HOLD_FILE, 0 },
		.version = version,
		.from = from,
		.to = to,
	};
}

/* One message, and its reply. */
static enum hold_answer process_ask(struct hold_process *p,
                                    const struct hold_request *r)
{
	bool late = hold_world->writer_open;

	hold_call(); /* sendmsg() */
	p->request = *r;
	p->answered = false;
	p->asked = true;
	check_wait(hold_flag, &p->answered);
	if (p->answer == HOLD_GIVE) { /* recvmsg(), mmap() and close() */
		u32 place = memory_place(p->given);

		CHECK_ASSERT(!late || r->number || r->version != HOLD_BEFORE,
		             "HD2: what a request begun after the writer's open gets");
		p->sent[place]--;
		p->has[place]++;
		check_note("has hold %llu", (unsigned long long)p->given->number);
	}
	return p->answer;
}

static bool number_is_settled(void *arg)
{
	const u64 *number = arg;

	for (u32 i = 0; i < HOLD_MEMORIES; i++)
		if (hold_world->memories[i].number == *number)
			return hold_world->memories[i].hold.state != HOLD_LOADING;
	return true;
}

void hold_wait(u64 number)
{
	check_wait(number_is_settled, &number);
}

struct hold_memory *hold_take(struct hold_process *p, u32 version, u64 from, u64 to)
{
	struct hold_request r = process_request(version, from, to);

	for (u32 i = 0; i < MAX_MESSAGES; i++) {
		switch (process_ask(p, &r)) {
		case HOLD_GIVE: return p->given;
		case HOLD_NONE: return NULL;
		case HOLD_WAIT: hold_wait(p->number);
		}
	}
	return NULL;
}

struct hold_memory *hold_take_number(struct hold_process *p, u64 number)
{
	struct hold_request r = { .number = number };

	return process_ask(p, &r) == HOLD_GIVE ? p->given : NULL;
}

void hold_look_at(const struct hold_process *p, const struct hold_memory *m, u64 from,
                  u64 to)
{
	CHECK_ASSERT(p->has[memory_place(m)] > 0, "a process looks at what it has");
	CHECK_ASSERT(from / HOLD_WORDS == m->range,
	             "HD7: the range that was asked for");
	for (u64 i = from; i < to; i++)
		CHECK_ASSERT(check_load_held(&m->words[i % HOLD_WORDS]) ==
		                     hold_truth(m->version, i),
		             "HD1, HD9: the file's bytes under one id, and they stay");
}

void hold_release(struct hold_process *p, struct hold_memory *m)
{
	hold_call(), check_tell(); /* munmap() */
	check_note("releases hold %llu", (unsigned long long)m->number);
	p->has[memory_place(m)]--;
	memory_put(m);
}

void hold_fork(struct hold_process *p, struct hold_process *child)
{
	hold_call(); /* fork() */
	for (u32 i = 0; i < HOLD_MEMORIES; i++) {
		child->has[i] = p->has[i];
		hold_world->memories[i].nr_had += p->has[i];
	}
	child->runs = true;
}

void hold_send(struct hold_process *p, struct hold_process *to, struct hold_memory *m)
{
	CHECK_ASSERT(p->has[memory_place(m)] > 0, "a process sends what it has");
	hold_call(); /* sendmsg() */
	if (to->dead)
		return;
	to->sent[memory_place(m)]++;
	m->nr_had++;
}

/* A description has come to processes[1], or none will. */
static bool process_has_message(void *arg)
{
	const struct hold_process **pair = arg;
	u32 sent = 0;

	for (u32 i = 0; i < HOLD_MEMORIES; i++)
		sent += pair[0]->sent[i];
	return sent > 0 || check_is_done(pair[1]->task);
}

struct hold_memory *hold_receive(struct hold_process *p,
                                 const struct hold_process *from)
{
	const struct hold_process *pair[] = { p, from };

	check_wait(process_has_message, pair);
	hold_call(); /* recvmsg(), mmap() */
	for (u32 i = 0; i < HOLD_MEMORIES; i++) {
		if (p->sent[i] == 0)
			continue;
		p->sent[i]--;
		p->has[i]++;
		return &hold_world->memories[i];
	}
	return NULL;
}

void hold_kill(struct hold_process *p)
{
	if (!p->runs)
		return;
	check_kill(p->task);
	hold_call(); /* exit_mm(), exit_files(): later */
	p->dead = true;
	for (u32 i = 0; i < HOLD_MEMORIES; i++)
		for (; p->has[i] + p->sent[i] > 0; memory_put(&hold_world->memories[i]))
			p->has[i] > 0 ? p->has[i]-- : p->sent[i]--;
}

/* ---- before and after ---- */

static void world_make_words(void)
{
	for (u32 i = 0; i < HOLD_ARENAS; i++) {
		hold_world->headers[i].alive = ALIVE_VALUE + i;
		file_proof_admit(&hold_world->proofs[i], HOLD_FILE, HOLD_RANGE_BYTES);
		check_name(&hold_world->headers[i].alive, 8, "alive[%u]", i);
		check_name(&hold_world->proofs[i].live, 8, "live[%u]", i);
	}
	for (u32 i = 0; i < HOLD_RANGES * HOLD_WORDS; i++)
		hold_world->disk[i] = hold_truth(HOLD_BEFORE, i);
	check_name(hold_world->disk, sizeof(hold_world->disk), "disk");
	check_name(&hold_world->calls, 8, "a system call");
	for (u32 i = 0; i < HOLD_MEMORIES; i++) {
		struct hold_memory *m = &hold_world->memories[i];

		check_name(m->words, sizeof(m->words), "memory[%u]", i);
		check_name(m->ended, sizeof(m->ended), "ended[%u]", i);
	}
}

/* A hold of range 0, read long ago. */
static void world_share(void)
{
	struct hold_request r = process_request(HOLD_BEFORE, 0, HOLD_WORDS);
	struct hold_memory *m = service_begin(&r);

	for (u32 i = 0; hold_piece_begin(&m->hold); i++)
		m->words[i] = hold_truth(HOLD_BEFORE, i);
	m->is_there = true;
	for (u32 i = 0; i < HOLD_PIECES; i++)
		hold_piece_end(&m->hold, true);
	service_settle(m);
}

void hold_process(u32 number, const char *name, u32 cpu, void (*body)(void *),
                  bool runs)
{
	struct hold_process *p = &hold_world->processes[number];

	p->runs = runs;
	p->task = check_task(name, cpu, body, p);
}

void hold_setup(const void *arg)
{
	const struct hold_case *c = arg;

	hold_world = host_alloc(sizeof(*hold_world), 64);
	CHECK_ASSERT(hold_world, "memory for the world");
	hold_world->c = c;
	hold_world->room.most = c->most;
	world_make_words();
	check_task("service", 0, service, NULL);
	if (c->shared)
		world_share();
	for (u32 i = 0; i < c->nr_workers; i++)
		check_task("worker", 1 + i, worker, NULL);
	c->tasks();
}

void hold_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(hold_world->service_done, "the service has ended");
	CHECK_ASSERT(hold_world->room.used == 0,
	             "HD5: nothing counts when all have gone");
	for (u32 i = 0; i < HOLD_MEMORIES; i++)
		CHECK_ASSERT(!hold_world->memories[i].is_there &&
		                     hold_world->memories[i].hold.state == HOLD_FREE,
		             "HD4: all memory has gone");
}
