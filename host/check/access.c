/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a step does to memory.
 *
 * A store goes into its CPU's buffer (buffer.c), and loads of that CPU see it there first. An
 * atomic operation that writes, a full fence, and a change of the CPU's task empty the buffer. It
 * belongs to the CPU, not to the task. In one point TSO is weaker here than in x86: a cas that
 * fails leaves the buffer as it is. Under weak memory a load may return an older value (history.c).
 *
 * Under SC stores go to memory at once. So do a fault's stores under any model. A fault is the
 * kernel's doing, and a CPU that enters or leaves the kernel orders what it did.
 */
#include <string.h>

#include "host/check/engine.h"

/* A copy is so many steps, whatever its size; its pieces end at words. */
#define COPY_PIECES 8u
#define WHOLE (~(u64)0)

void access_seen(const struct step *s)
{
	if (engine.seen)
		engine.seen(s);
}

static void touch(const void *p, size_t n, bool writes)
{
	if (engine.stepped)
		footprint_add(&engine.foot, p, n, writes);
}

/* Alone there is one task, and nothing older than memory. */
static bool has_history(void)
{
	return engine.memory == CHECK_WEAK && engine.running;
}

void access_commit(const struct store *s)
{
	if (has_history())
		history_stored(s->p, &s->mark);
	touch(s->p, 8, true);
	*s->p = (*s->p & ~s->mask) | s->v;
	if (engine.stepped)
		memory_accept(s->p);
}

void access_switch(u32 cpu, u32 from, u32 to)
{
	buffer_drain_all(cpu);
	if (!has_history())
		return;
	if (from < engine.nr_tasks)
		history_fence_full(from);
	history_fence_full(to);
}

static u64 load_newest(u32 cpu, const u64 *p)
{
	touch(p, 8, false);
	return buffer_overlay(cpu, p, *p);
}

static u64 load(u32 cpu, const u64 *p, enum step_order order, u32 *ret_newer)
{
	*ret_newer = 0;
	/* A CPU's own stores are the newest for it. */
	if (!has_history() || buffer_has_word(cpu, p))
		return load_newest(cpu, p);
	return history_load(engine.current, p, order, ret_newer);
}

static struct store store_of(u64 *p, u64 v, u64 mask, enum step_order order)
{
	struct store s = { .p = p, .v = v, .mask = mask };

	s.is_release = order == ORDER_RELEASE;
	if (!has_history())
		return s;
	if (!history_knows_held(engine.current, p))
		engine_fail("a store that may come before a holder's load");
	history_mark(engine.current, order, &s.mark);
	return s;
}

static void store(u32 cpu, u64 *p, u64 v, u64 mask, enum step_order order)
{
	struct store s = store_of(p, v, mask, order);

	if (buffer_has(cpu))
		buffer_add(cpu, &s);
	else
		access_commit(&s);
}

static void fence_full(u32 cpu)
{
	buffer_drain_all(cpu);
	if (has_history())
		history_fence_full(engine.current);
}

/* An RMW that writes is a full fence on both sides. */
static void write_newest(u32 cpu, u64 *p, u64 v)
{
	struct store s;

	fence_full(cpu);
	if (has_history())
		history_take_newest(engine.current, p);
	s = store_of(p, v, WHOLE, ORDER_RELEASE);
	access_commit(&s);
	if (has_history())
		history_fence_full(engine.current);
}

/* One that fails orders nothing (host/host.h): it is a load, which may be old. */
static bool compare_and_swap(u32 cpu, u64 *p, u64 old, u64 v, u64 *ret_before,
                             u32 *ret_newer)
{
	bool same;

	*ret_newer = 0;
	if (has_history() && !buffer_has_word(cpu, p)) {
		same = history_cas(engine.current, p, old, ret_before, ret_newer);
	} else {
		*ret_before = load_newest(cpu, p);
		same = *ret_before == old;
	}
	touch(p, 8, false);
	if (same)
		write_newest(cpu, p, v);
	return same;
}

static void fence_heavy(u32 cpu)
{
	buffer_drain_all(cpu);
	for (u32 i = 0; i < engine.nr_cpus; i++)
		buffer_drain_heavy(i);
	if (has_history())
		history_fence_heavy(engine.current);
}

void check_fence(enum step_fence fence)
{
	u32 cpu;

	if (!engine.running)
		return;
	cpu = engine.tasks[engine.current].cpu;
	if (fence == FENCE_RELEASE)
		buffer_fence_release(cpu);
	else if (fence == FENCE_LIGHT)
		buffer_fence_light(cpu);
	if (!has_history())
		return;
	switch (fence) {
	case FENCE_ACQUIRE: history_fence_acquire(engine.current); break;
	case FENCE_RELEASE: history_fence_release(engine.current); break;
	default: history_fence_light(engine.current);
	}
}

static u64 access_byte(u32 cpu, struct step *s)
{
	u64 *word = (u64 *)((uintptr_t)s->p & ~(uintptr_t)7);
	u32 shift = ((uintptr_t)s->p & 7) * 8;

	memory_check(s->p, 1, s->kind == STEP_LOAD_BYTE ? "load" : "store");
	if (s->kind == STEP_LOAD_BYTE)
		return load(cpu, word, ORDER_RELAXED, &s->newer) >> shift & 0xff;
	store(cpu, word, (s->a & 0xff) << shift, (u64)0xff << shift, ORDER_RELAXED);
	return 0;
}

static void execute(struct step *s, enum step_order order)
{
	u64 *p = (u64 *)s->p;
	u32 cpu = s->cpu;

	s->ok = false;
	switch (s->kind) {
	case STEP_LOAD:
		memory_check_word(p, "load");
		s->result = load(cpu, p, order, &s->newer);
		break;
	case STEP_LOAD_BYTE: s->result = access_byte(cpu, s); break;
	case STEP_STORE:
		memory_check_word(p, "store");
		s->ok = true;
		store(cpu, p, s->a, WHOLE, order);
		break;
	case STEP_STORE_BYTE:
		s->ok = true;
		s->result = access_byte(cpu, s);
		break;
	case STEP_CAS:
		memory_check_word(p, "atomic operation");
		s->ok = compare_and_swap(cpu, p, s->a, s->b, &s->result, &s->newer);
		break;
	case STEP_ADD:
	case STEP_XCHG:
		memory_check_word(p, "atomic operation");
		s->ok = true;
		s->result = load_newest(cpu, p);
		write_newest(cpu, p, s->kind == STEP_ADD ? s->result + s->a : s->a);
		break;
	case STEP_PERCPU_ADD:
		memory_check_word(p, "per-CPU add");
		s->ok = true;
		store(cpu, p, load_newest(cpu, p) + s->a, WHOLE, order);
		break;
	case STEP_PERCPU_CAS:
		memory_check_word(p, "per-CPU compare-and-swap");
		s->ok = load_newest(cpu, p) == s->a;
		if (s->ok)
			store(cpu, p, s->b, WHOLE, order);
		break;
	case STEP_FENCE: fence_full(cpu); break;
	case STEP_HEAVY: fence_heavy(cpu); break;
	default: break;
	}
}

/* The CPU that a task is told it runs on. A fault runs on no CPU of the scenario; it is
 * told one of theirs, as if it had interrupted that CPU's task. */
static u32 home(u32 cpu)
{
	if (cpu < CHECK_MAX_CPUS)
		return cpu;
	cpu = engine.current % engine.nr_cpus;
	access_switch(cpu, engine.cpus[cpu].last_task, engine.current);
	return cpu;
}

u64 check_step(enum step_kind kind, enum step_order order, const void *p, u64 a, u64 b)
{
	struct step s = { .kind = (u8)kind, .p = p, .a = a, .b = b };

	if (!engine.running) {
		/* setup() and finish(): alone, and nothing may stay behind. */
		execute(&s, order);
		buffer_drain_all(0);
		return kind == STEP_CAS || kind == STEP_PERCPU_CAS ? s.ok : s.result;
	}
	if (kind == STEP_RELAX)
		engine_spin();
	engine_point();
	s.entity = (u8)engine.current;
	s.cpu = (u8)engine.tasks[engine.current].cpu;
	if (kind == STEP_PERCPU_ADD)
		s.p = (const u64 *)p + (size_t)home(s.cpu) * b;
	execute(&s, order);
	if (kind == STEP_PERCPU_ADD)
		s.result = home(s.cpu);
	access_seen(&s);
	return kind == STEP_CAS ? s.ok : s.result;
}

u64 check_load_held(const u64 *p)
{
	u64 v = host_load_relaxed(p);

	if (has_history())
		history_held(engine.current, p);
	return v;
}

u32 host_cpu(void)
{
	u32 cpu;

	if (!engine.running)
		return engine.alone_on;
	engine_point();
	cpu = home(engine.tasks[engine.current].cpu);
	return cpu;
}

u32 host_nr_cpus(void)
{
	return engine.nr_cpus;
}

u32 host_percpu_add(u64 *p, u32 stride_words, u64 delta)
{
	return (u32)check_step(STEP_PERCPU_ADD, ORDER_RELAXED, p, delta, stride_words);
}

bool host_percpu_cas(u64 *p, u32 cpu, u64 old, u64 new_value)
{
	struct step s = { .kind = STEP_PERCPU_CAS, .p = p, .a = old, .b = new_value };

	if (!engine.running)
		return check_step(STEP_PERCPU_CAS, ORDER_RELAXED, p, old, new_value);
	engine_point();
	s.entity = (u8)engine.current;
	s.cpu = (u8)engine.tasks[engine.current].cpu;
	if (home(s.cpu) == cpu)
		execute(&s, ORDER_RELAXED);
	access_seen(&s);
	return s.ok;
}

/* A sequence is two steps: the looks, and the commit. Between them all others may go on. But
 * where they disturb it the commit does not come. The commit is a store: what other CPUs have done
 * to the word meanwhile is lost. */
enum host_step host_percpu_step(const u64 *gate, const u64 *guard, u64 is, u64 *p,
                                u32 cpu, u64 old, u64 new_value)
{
	struct task *t = &engine.tasks[engine.current];
	struct step s = { .kind = STEP_PERCPU_CAS, .p = p, .a = old, .b = new_value };
	u32 newer;

	if (!engine.running) {
		if (*gate & HOST_STEP_CLOSED)
			return HOST_STEP_SHUT;
		s.ok = *guard == is &&
		       check_step(STEP_PERCPU_CAS, ORDER_RELAXED, p, old, new_value);
		return s.ok ? HOST_STEP_DONE : HOST_STEP_OTHER;
	}
	engine_point();
	engine.foot.everything = true;
	if (home(t->cpu) != cpu)
		return HOST_STEP_OTHER;
	t->disturbed = false;
	/* Its code is one piece for the compiler, and an abort fence restarts it. */
	check_fence(FENCE_LIGHT);
	memory_check_word(gate, "load");
	if (load(t->cpu, gate, ORDER_ACQUIRE, &newer) & HOST_STEP_CLOSED)
		return HOST_STEP_SHUT;
	memory_check_word(guard, "load");
	memory_check_word(p, "load");
	if (load(t->cpu, guard, ORDER_RELAXED, &newer) != is ||
	    load_newest(t->cpu, p) != old)
		return HOST_STEP_OTHER;
	engine_point();
	engine.foot.everything = true;
	s.entity = (u8)engine.current;
	s.cpu = (u8)t->cpu;
	s.ok = !t->disturbed;
	if (s.ok)
		store(t->cpu, p, new_value, WHOLE, ORDER_RELEASE);
	check_fence(FENCE_LIGHT);
	access_seen(&s);
	return s.ok ? HOST_STEP_DONE : HOST_STEP_OTHER;
}

void check_on_abort(void (*aborted)(void))
{
	engine.aborted = aborted;
}

void check_refuse(enum check_refusal what, u32 most)
{
	engine.refuse_most[what] = most;
}

bool access_refused(enum check_refusal what)
{
	static const char *const names[] = { "fence", "memory" };

	if (engine.nr_refused[what] >= engine.refuse_most[what])
		return false;
	/* One in four, so that the last of several calls is met, too. Of all these choices an
	 * exhaustive search has three. */
	if (!host_choose(2) || !host_choose(2))
		return false;
	engine.nr_refused[what]++;
	check_note("no %s: refused", names[what]);
	return true;
}

bool host_fence_abort(void)
{
	u32 i;

	if (access_refused(CHECK_NO_FENCE))
		return false;
	check_step(STEP_HEAVY, ORDER_RELAXED, NULL, 0, 0);
	engine.foot.everything = true;
	for (i = 0; i < engine.nr_tasks; i++)
		engine.tasks[i].disturbed = true;
	if (engine.aborted)
		engine.aborted();
	return true;
}

void host_fence_heavy(void)
{
	check_step(STEP_HEAVY, ORDER_RELAXED, NULL, 0, 0);
}

bool host_fence_global(void)
{
	host_fence_heavy();
	return true;
}

/* A holder gives the lock back after boundedly many steps. A holder that was killed, or
 * that waits for the caller, makes a livelock, and the engine reports it. */
void host_lock(u64 *lock)
{
	while (!host_cas(lock, 0, 1))
		host_relax();
}

void host_unlock(u64 *lock)
{
	host_store_release(lock, 0);
}

/* A copy under weak memory: word by word, each access relaxed. */
static void copy_words(u8 *to, const u8 *from, size_t n)
{
	u32 cpu = engine.tasks[engine.current].cpu, newer;
	struct store s;
	u64 v;

	for (size_t at = 0; at < n; at += 8) {
		memcpy(&v, from + at, 8);
		if (memory_is_shared(from))
			v = load(cpu, (const u64 *)(from + at), ORDER_RELAXED, &newer);
		if (memory_is_shared(to)) {
			s = store_of((u64 *)(to + at), v, WHOLE, ORDER_RELAXED);
			access_commit(&s);
		} else {
			memcpy(to + at, &v, 8);
		}
	}
}

static bool are_words(const void *to, const void *from, size_t n)
{
	return (((uintptr_t)to | (uintptr_t)from | n) & 7) == 0;
}

static void copy_piece(u8 *to, const u8 *from, size_t n)
{
	u32 cpu = engine.tasks[engine.current].cpu;
	bool shared = memory_is_shared(to);

	memory_check(from, n, "copy");
	touch(from, n, false);
	/* The copy must see this CPU's own stores to the source. A copy to shared memory
	 * would have to go through the buffer. Both are done as if the buffer were empty. */
	for (u32 i = 0; !shared && i < engine.cpus[cpu].nr; i++)
		shared = (const u8 *)engine.cpus[cpu].buffer[i].p + 8 > from &&
		         (const u8 *)engine.cpus[cpu].buffer[i].p < from + n;
	if (shared)
		buffer_drain_all(cpu);
	if (memory_is_shared(to)) {
		memory_check(to, n, "copy");
		touch(to, n, true);
	}
	if (has_history() && are_words(to, from, n))
		copy_words(to, from, n);
	else
		memcpy(to, from, n);
	access_seen(&(struct step){ .kind = STEP_COPY,
	                            .entity = (u8)engine.current,
	                            .cpu = (u8)cpu,
	                            .p = from,
	                            .a = n,
	                            .ok = true });
}

void check_copy(void *to, const void *from, size_t n)
{
	size_t piece = (n / COPY_PIECES + 7) & ~(size_t)7, at, part;

	if (!engine.running) {
		memcpy(to, from, n);
		return;
	}
	if (piece == 0)
		piece = 8;
	for (at = 0; at < n; at += part) {
		part = n - at < piece ? n - at : piece;
		engine_point();
		copy_piece((u8 *)to + at, (const u8 *)from + at, part);
	}
}

u64 host_now_ns(void)
{
	engine.foot.everything = true;
	return engine.executed;
}

static u32 noted(u32 entity, u32 number)
{
	if (engine.nr_numbers < NUMBERS_MAX) {
		engine.numbers[engine.nr_numbers].entity = (u8)entity;
		engine.numbers[engine.nr_numbers++].number = number;
	}
	return number;
}

u32 access_choose_for(u32 entity, u32 n)
{
	if (n < 2 || !engine.running)
		return 0;
	return noted(entity, engine.choose_number(entity, n));
}

u32 access_choose_old(u32 n)
{
	if (n < 2)
		return 0;
	return noted(engine.current, engine.choose_old(engine.current, n));
}

u32 host_choose(u32 n)
{
	if (!engine.choose_number || n < 2 || !engine.running)
		return 0;
	engine.foot.everything = true;
	return access_choose_for(engine.current, n);
}
