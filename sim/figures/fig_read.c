/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The reading workload of the papers' figures: sim/figures/fig_read.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/count/paygo_table.h"
#include "core/owned/count_owned.h"
#include "sim/drbh.h"
#include "sim/figures/fig_read.h"
#include "sim/kernel.h"

#define FIG_WARM_NS 50000u
#define FIG_WINDOW_NS 100000u
#define FIG_TICK_NS 1000000u
#define FIG_LINE_BYTES 64u
/* References on their way to another CPU; more than there are CPUs. */
#define FIG_MAIL 1024u
/* A window with fewer turns of a thread than this, on average, may begin before some
 * threads have begun. It counts their first reads, which bring their buffers from memory.
 * Such a run is made again, once, with all times longer. They are so much longer that there
 * are enough turns, but at most so many times as long. */
#define FIG_OPS_ENOUGH_PER_THREAD 100u
#define FIG_LONGER_MOST 8u
/* The file that ranges above come from; the blocks' files begin at 1. */
#define FIG_OTHER_FILE 4096u

int fig_world_map_above(struct fig_world *world, u32 user, u32 nr)
{
	u64 page;
	u32 i;
	int err = 0;

	for (i = 0; i < nr && !err; i++)
		err = count_owned_mmap(&world->count, user, FIG_OTHER_FILE + i, 0, 1,
		                       &page);
	return err;
}

int fig_world_share(struct fig_world *world, u32 user, u32 nr)
{
	u32 object;
	int err = 0;

	for (object = 0; object < nr && !err; object++)
		err = count_share(&world->count, user, object);
	return err;
}

int fig_world_make(struct fig_world *world, const struct count_scheme *scheme,
                   u32 nr_objects, u32 nr_files, u32 nr_users, u32 copy_bytes)
{
	u32 per_file = (nr_objects + nr_files - 1) / nr_files;
	u32 object;
	int err;

	memset(world, 0, sizeof(*world));
	world->data_stride =
		(copy_bytes + FIG_LINE_BYTES) / FIG_LINE_BYTES * FIG_LINE_BYTES;
	world->frames =
		host_alloc((u64)nr_objects * sizeof(struct frame), FIG_LINE_BYTES);
	world->slots = host_alloc((u64)nr_objects * sizeof(u64), FIG_LINE_BYTES);
	world->root = host_alloc(FIG_LINE_BYTES, FIG_LINE_BYTES);
	world->data = host_alloc(nr_objects * world->data_stride, FIG_LINE_BYTES);
	if (!world->frames || !world->slots || !world->root || !world->data)
		return -ENOMEM;
	err = count_init(&world->count, scheme, world->frames, nr_objects, nr_users);
	if (err)
		return err;
	world->counts_in_frame = drbh_counts_in_frame(&world->count);
	for (object = 0; object < nr_objects; object++) {
		frame_fill_begin(&world->frames[object]);
		frame_fill_end(&world->frames[object],
		               block_id(1 + object / per_file, object % per_file));
		world->slots[object] = object + 1;
		count_thaw(&world->count, object);
	}
	return 0;
}

struct fig_mail {
	u64 token;
	u32 object, user, from;
};

/* What all tasks of the one running simulation see. It is plain memory, charged to no
 * task. */
struct fig_reading {
	const struct fig_read *setup;
	struct fig_world world;
	struct kernel_rwlock file_locks;  /* one for each file */
	struct kernel_rwlock space_locks; /* one for each user */
	u32 base_work;
	struct fig_mail mail[FIG_MAIL];
	u32 nr_mail;
	u64 warm_ns; /* the window begins then */
	u64 nr_held, nr_failed;
	u64 nr_home, nr_away, nr_entry_home, nr_entry_away;
	double held_ns;
};

struct fig_reader {
	struct fig_reading *reading;
	u8 *buffer;
	u64 random;
	u32 user, position, self;
};

/* A block by Zipf's law with this exponent (LODIC s.3), the hottest first: the inverse of
 * the continuous law, cut to whole ranks. */
#define FIG_ZIPF_EXPONENT 0.98

static u32 fig_random_zipf(u64 *random, u32 nr)
{
	double rest = 1 - FIG_ZIPF_EXPONENT;
	double all = pow((double)nr + 1, rest) - 1;
	double rank = pow(1 + fig_random_unit(random) * all, 1 / rest);

	/* The last step only guards against rounding. */
	return rank < nr + 1.0 ? (u32)rank - 1 : nr - 1;
}

static u32 fig_reader_choose(struct fig_reader *r)
{
	const struct fig_read *s = r->reading->setup;

	if (s->access == FIG_UNIFORM)
		return (u32)(fig_random(&r->random) % s->nr_objects);
	if (s->access == FIG_ZIPF)
		return fig_random_zipf(&r->random, s->nr_objects);
	if (s->access == FIG_SEQUENTIAL)
		return r->position++ % s->nr_objects;
	return 0;
}

/* Was the reference counted in an entry of a CPU's table? */
static bool fig_token_is_entry(const struct fig_reading *g, u64 token)
{
	return g->setup->scheme->table && token & PAYGO_TOKEN;
}

/* A moved task returns on this CPU what it took on another one. */
static void fig_reader_take_mail(struct fig_reader *r)
{
	struct fig_reading *g = r->reading;
	struct fig_mail mail;

	if (g->nr_mail == 0 || g->mail[g->nr_mail - 1].from == r->self)
		return;
	mail = g->mail[--g->nr_mail];
	count_unref(&g->world.count, mail.object, mail.user, mail.token);
	if (host_now_ns() < g->warm_ns)
		return;
	g->nr_away++;
	g->nr_entry_away += fig_token_is_entry(g, mail.token);
}

static bool fig_reader_ref(struct fig_reader *r, u32 object, u64 *ret_token)
{
	struct fig_reading *g = r->reading;
	bool taken;

	kernel_rwlock_read_begin(&g->space_locks, r->user);
	taken = count_ref(&g->world.count, object, r->user, ret_token);
	kernel_rwlock_read_end(&g->space_locks, r->user);
	return taken;
}

static void fig_reader_unref(struct fig_reader *r, u32 object, u64 token)
{
	struct fig_reading *g = r->reading;

	kernel_rwlock_read_begin(&g->space_locks, r->user);
	count_unref(&g->world.count, object, r->user, token);
	kernel_rwlock_read_end(&g->space_locks, r->user);
}

static void fig_reader_return(struct fig_reader *r, u32 object, u64 token)
{
	struct fig_reading *g = r->reading;
	u32 split = g->setup->split_per_million;

	if (split && fig_random(&r->random) % 1000000 < split &&
	    g->nr_mail < FIG_MAIL) {
		g->mail[g->nr_mail++] =
			(struct fig_mail){ token, object, r->user, r->self };
		return;
	}
	fig_reader_unref(r, object, token);
	if (host_now_ns() < g->warm_ns)
		return;
	g->nr_home++;
	g->nr_entry_home += fig_token_is_entry(g, token);
}

static u32 fig_reading_files(const struct fig_read *s)
{
	return s->nr_files ? s->nr_files : 1;
}

/* The object's file, as fig_world_make() spreads them. */
static u32 fig_reading_file(const struct fig_read *s, u32 object)
{
	u32 nr_files = fig_reading_files(s);

	return object / ((s->nr_objects + nr_files - 1) / nr_files);
}

/* A frame's flags. Linux keeps them beside the count. So they lie on the count's line
 * if the scheme counts in the frame. */
static const u64 *fig_world_flags(const struct fig_world *w, u32 object)
{
	const u64 *words = w->count.state;

	if (w->counts_in_frame)
		return &words[(u64)object * COUNT_LINE_WORDS + 1];
	return &w->frames[object].state;
}

static void fig_reader_read(struct fig_reader *r)
{
	struct fig_reading *g = r->reading;
	struct fig_world *w = &g->world;
	const struct fig_read *s = g->setup;
	u32 object = fig_reader_choose(r);
	const u64 *flags;
	u64 token, from;

	sim_work(g->base_work / 2 + s->request_work);
	fig_reader_take_mail(r);
	flags = fig_world_flags(w, object);
	kernel_rwlock_read_begin(&g->file_locks, fig_reading_file(s, object));
	host_load_dep(w->root);
	host_load_dep(&w->slots[object]);
	if (!fig_reader_ref(r, object, &token)) {
		g->nr_failed++;
		kernel_rwlock_read_end(&g->file_locks, fig_reading_file(s, object));
		return;
	}
	from = host_now_ns();
	/* Is it still the block's frame, as after any lookup without a lock? And what do
	 * its flags say? */
	host_load_relaxed(flags);
	host_load_relaxed(&w->slots[object]);
	host_load_relaxed(flags);
	/* Nobody looks at the bytes. */
	sim_copy(r->buffer, w->data + object * w->data_stride, s->copy_bytes);
	host_load_relaxed(flags);
	if (from >= g->warm_ns) {
		g->held_ns += (double)(host_now_ns() - from);
		g->nr_held++;
	}
	fig_reader_return(r, object, token);
	kernel_rwlock_read_end(&g->file_locks, fig_reading_file(s, object));
	sim_work(g->base_work - g->base_work / 2);
	sim_op_done();
}

static void fig_reader_body(void *arg)
{
	struct fig_reader *r = arg;

	r->self = sim_self();
	while (!sim_stopping())
		fig_reader_read(r);
}

/* A process that maps the file, sleeps and unmaps: only for schemes with process
 * spaces. */
static void fig_mapper_body(void *arg)
{
	struct fig_reader *r = arg;
	struct fig_reading *g = r->reading;
	struct count *c = &g->world.count;
	u64 page;

	while (!sim_stopping()) {
		if (count_owned_mmap(c, r->user, 1, 0, 1, &page) != 0)
			host_fail("no room for one more mapping", __FILE__, __LINE__);
		if (g->setup->mapper_touches)
			count_owned_map_block(c, r->user, page, 0);
		sim_sleep(g->setup->mapper_sleep_ns);
		count_owned_munmap(c, r->user, page);
	}
}

/* One on each CPU; user is the CPU. */
static void fig_drainer_body(void *arg)
{
	struct fig_reader *r = arg;
	struct fig_reading *g = r->reading;
	u64 period = g->setup->drain_ns;

	while (!sim_stopping()) {
		sim_sleep(period - host_now_ns() % period);
		paygo_table_fold(g->setup->scheme->table(&g->world.count), r->user);
	}
}

static void fig_reading_tick(void *arg, u32 cpu)
{
	count_tick(&((struct fig_reading *)arg)->world.count, cpu);
}

/* Threads on CPUs: those of a process side by side, or as far apart as can be. */
static u32 fig_reader_user(const struct fig_read *s, u32 thread)
{
	u32 per_user = s->threads_per_user ? s->threads_per_user : 1;

	return s->scatter ? thread % s->nr_users : thread / per_user;
}

/* What the setup says of the scheme's tables. */
static int fig_reading_shape(struct fig_reading *g)
{
	const struct fig_read *s = g->setup;
	struct paygo_table *t =
		s->scheme->table ? s->scheme->table(&g->world.count) : NULL;

	if (!t)
		return 0;
	t->eager = s->table_eager;
	if (s->table_entries == 0)
		return 0;
	return paygo_table_shape(t, s->table_entries / PAYGO_TABLE_WAYS,
	                         PAYGO_TABLE_WAYS);
}

/* Everything that was allocated from here on belongs to name. */
static u8 *fig_name_since(u8 *from, const char *name)
{
	u8 *end = host_alloc(FIG_LINE_BYTES, FIG_LINE_BYTES);

	if (end && end > from)
		sim_name(from, (size_t)(end - from), name);
	return end;
}

/* The words of a world that has just been made. Returns where the next memory begins, or
 * NULL. */
static u8 *fig_reading_name(const struct fig_reading *g)
{
	const struct fig_world *w = &g->world;
	u64 nr = g->setup->nr_objects;

	sim_name(w->frames, nr * sizeof(*w->frames), "frame");
	sim_name(w->slots, nr * sizeof(*w->slots), "lookup");
	sim_name(w->root, FIG_LINE_BYTES, "lookup");
	sim_name(w->data, nr * w->data_stride, "data");
	/* What a scheme has made for itself comes next. */
	return fig_name_since(w->data + nr * w->data_stride, "counter");
}

static int fig_reading_make(struct fig_reading *g, const struct fig_read *s)
{
	u32 nr_sharers = s->nr_users + s->nr_idle_users;
	u8 *mark = NULL;
	u32 user;
	int err;

	g->setup = s;
	err = fig_world_make(&g->world, s->scheme, s->nr_objects, fig_reading_files(s),
	                     nr_sharers + s->nr_mappers, s->copy_bytes);
	if (!err)
		err = fig_reading_shape(g);
	if (!err && s->by_word)
		mark = fig_reading_name(g);
	for (user = 0; user < nr_sharers && !err && !s->not_shared; user++) {
		if (s->scheme->has_ptes)
			err = fig_world_map_above(&g->world, user, s->nr_maps_above);
		if (!err)
			err = fig_world_share(&g->world, user, s->nr_objects);
	}
	if (err)
		return err;
	if (mark)
		fig_name_since(mark, "process space");
	if (s->file_lock)
		err = kernel_rwlock_make(&g->file_locks, fig_reading_files(s),
		                         "inode lock");
	if (err)
		return err;
	if (s->not_shared || s->no_space_lock || !kernel_locks_space(s->scheme))
		return 0;
	return kernel_rwlock_make(&g->space_locks, s->nr_users, "address-space lock");
}

static u32 fig_read_drainers(const struct fig_read *s, u32 nr_cpus)
{
	return s->scheme->table && s->drain_ns ? nr_cpus : 0;
}

static int fig_reading_start(struct fig_reading *g, struct fig_reader *readers,
                             u32 nr_threads, u32 nr_cpus, u64 seed)
{
	const struct fig_read *s = g->setup;
	struct fig_reader *drainers = readers + nr_threads + s->nr_mappers;
	u32 i;

	/* Before the readers, so that they sleep while those run. */
	for (i = 0; i < fig_read_drainers(s, nr_cpus); i++) {
		drainers[i] = (struct fig_reader){ .reading = g, .user = i };
		sim_task(i, fig_drainer_body, &drainers[i]);
	}
	for (i = 0; i < nr_threads + s->nr_mappers; i++) {
		struct fig_reader *r = &readers[i];
		bool mapper = i >= nr_threads;

		r->reading = g;
		r->random = seed * 0x10001 + i;
		r->user = mapper ? s->nr_users + s->nr_idle_users + i - nr_threads
		                 : fig_reader_user(s, i);
		r->position = (u32)(fig_random(&r->random) % s->nr_objects);
		if (s->from_start)
			r->position = 0;
		r->buffer = host_alloc(s->copy_bytes + FIG_LINE_BYTES, FIG_LINE_BYTES);
		if (!r->buffer)
			return -ENOMEM;
		if (s->by_word)
			sim_name(r->buffer, s->copy_bytes + FIG_LINE_BYTES, "buffer");
		sim_task(i % nr_cpus, mapper ? fig_mapper_body : fig_reader_body, r);
	}
	if (s->scheme->tick)
		sim_every(s->tick_ns ? s->tick_ns : FIG_TICK_NS, fig_reading_tick, g);
	return 0;
}

/* All times are so many times as long as the setup says. */
static int fig_read_once(const struct sim_machine *machine, u64 seed,
                         struct fig_reading *g, struct fig_reader *readers,
                         u32 nr_threads, u64 times, struct sim_result *ret_result)
{
	const struct fig_read *s = g->setup;
	u32 nr_cpus = machine->nr_sockets * machine->cpus_per_socket;
	u64 window_ns = s->window_ns ? s->window_ns : FIG_WINDOW_NS;
	struct sim_machine m = *machine;
	int err;

	memset(g, 0, sizeof(*g));
	g->setup = s;
	g->base_work = machine->base_work;
	m.has_caches = s->caches;
	g->warm_ns = (s->warm_ns ? s->warm_ns : FIG_WARM_NS) * times;
	sim_begin(&m, seed);
	err = fig_reading_make(g, s);
	if (!err)
		err = fig_reading_start(g, readers, nr_threads, nr_cpus, seed);
	if (!err)
		sim_run(g->warm_ns, window_ns * times, ret_result);
	return err;
}

/* How many times as long a run must last for enough turns of each thread. */
static u64 fig_read_times(u64 ops, u32 nr_threads)
{
	u64 enough = (u64)FIG_OPS_ENOUGH_PER_THREAD * nr_threads;
	u64 times = enough / (ops + 1) + 1;

	return times < FIG_LONGER_MOST ? times : FIG_LONGER_MOST;
}

static u32 fig_read_threads(const struct fig_read *s)
{
	if (s->nr_threads)
		return s->nr_threads;
	return s->nr_users * (s->threads_per_user ? s->threads_per_user : 1);
}

int fig_read_run(const struct sim_machine *machine, u64 seed,
                 const struct fig_read *setup, struct fig_read_result *ret_result)
{
	u32 nr_threads = fig_read_threads(setup);
	u32 nr_cpus = machine->nr_sockets * machine->cpus_per_socket;
	struct fig_reading *g = calloc(1, sizeof(*g));
	struct fig_reader *readers = calloc(nr_threads + setup->nr_mappers +
	                                            fig_read_drainers(setup, nr_cpus),
	                                    sizeof(*readers));
	struct sim_result result;
	u64 times;
	int err = -ENOMEM;

	if (!g || !readers)
		goto out;
	g->setup = setup;
	err = fig_read_once(machine, seed, g, readers, nr_threads, 1, &result);
	times = err ? 1 : fig_read_times(result.ops, nr_threads);
	if (times > 1)
		err = fig_read_once(machine, seed, g, readers, nr_threads, times,
		                    &result);
	if (err)
		goto out;
	*ret_result = (struct fig_read_result){
		.mops = result.mops,
		.transfers_per_op =
			result.ops ? (double)result.transfers / (double)result.ops : 0,
		.held_ns = g->nr_held ? g->held_ns / (double)g->nr_held : 0,
		.nr_failed = g->nr_failed,
		.nr_home = g->nr_home,
		.nr_away = g->nr_away,
		.nr_entry_home = g->nr_entry_home,
		.nr_entry_away = g->nr_entry_away,
		.all = result,
	};
out:
	free(readers);
	free(g);
	return err;
}
