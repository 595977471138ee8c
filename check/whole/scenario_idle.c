/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a service has while programs are connected that do little. Nothing fails, and each program
 * has files of its own, so each rule is strict:
 *
 *   deleted   a file without a name goes, though a program that sleeps has it open
 *   closed    a file that no program has open goes when its time is over
 *   full      one that comes gets the place of a file that no program has open
 *   contexts  the service has those that programs have
 *   pestered  writers that come often meet a lease once in each pause
 *   quota     as many contexts may pin as is said (with "contexts")
 */
#include <stdio.h>

#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/world_files.h"
#include "lib/port.h"
#include "lib/service/service.h"

#define NS_PER_MS ((u64)1000000)
#define MOST_OWN 8u
/* The sweep comes round in 2.5 s (sweep.c). What a program read just before comes out in the first
 * round, and then there are two more. */
#define GONE_NS (10000 * NS_PER_MS)
/* The ticks of the service, and some of them close no more than a part. */
#define LATE_NS (1000 * NS_PER_MS)
/* Which files a full service has in "full". */
#define FEW_FILES 2u
#define MOST_CONTEXTS 12u

enum idle_kind {
	IDLE_DELETED,
	IDLE_CLOSED,
	IDLE_FULL,
	IDLE_CONTEXTS,
	IDLE_PESTERED,
	NR_IDLE
};

static struct {
	enum idle_kind kind;
	u32 nr_own;
	u32 quota;
	u64 keep_ms, pause_ms;
} idle;

static void idle_adjust(struct service_options *options)
{
	options->keeping.keep_ms = idle.keep_ms;
	options->keeping.lease_pause_ms = idle.pause_ms;
	options->tables.quota = idle.quota;
	options->keeping.nr_files = idle.kind == IDLE_FULL ? FEW_FILES : 64;
}

static void own_path(u32 number, char path[16])
{
	snprintf(path, 16, "/own%u", number);
}

/* How many descriptors of the file the service has. */
static u32 service_has(const struct inode *inode)
{
	const struct process *p = world_youngest_service();
	u32 nr = 0;

	for (u32 i = 0; p && i < MACHINE_MOST_FDS; i++)
		if (p->fds[i] && fd_file_is(p->fds[i]))
			nr += ((const struct fd_file *)p->fds[i])->inode == inode;
	return nr;
}

static void service_leaves(const struct inode *inode, u64 ns, const char *what)
{
	u64 until = machine.now_ns + ns;

	while (service_has(inode) > 0 && machine.now_ns < until)
		task_wait(NULL, machine.now_ns + LATE_NS / 8);
	if (service_has(inode) > 0)
		machine_fail("%s, and after so long the service still has it", what);
}

static void idle_opens(struct lodic *lodic, const char *path,
                       struct world_open *ret_open)
{
	if (!world_open(lodic, path, ret_open))
		machine_fail("nothing fails, and %s cannot be opened", path);
}

static void idle_reads(struct lodic_context *context, const struct world_open *open)
{
	for (u32 i = machine_draw(20); i > 0; i--)
		world_read(context, open);
}

/* ---- deleted, closed ---- */

static void deleted_run(struct lodic *lodic, struct lodic_context *context,
                        const char *path)
{
	const struct inode *inode = files_find(path);
	struct world_open open;

	idle_opens(lodic, path, &open);
	idle_reads(context, &open);
	if (machine_draw(2))
		port_sleep(machine_draw(2000) * NS_PER_MS);
	program_remove(path);
	service_leaves(inode, GONE_NS, "a file is deleted, and its program sleeps");
	idle_reads(context, &open);
	world_close(&open);
}

static void closed_run(struct lodic *lodic, struct lodic_context *context,
                       const char *path)
{
	u64 keep_ms = idle.keep_ms ? idle.keep_ms : SERVICE_DEFAULT_KEEP_MS;
	const struct inode *inode = files_find(path);
	struct world_open open;

	for (u32 i = 1 + machine_draw(3); i > 0; i--) {
		idle_opens(lodic, path, &open);
		idle_reads(context, &open);
		world_close(&open);
		if (machine_draw(2))
			port_sleep(machine_draw(2000) * NS_PER_MS);
	}
	service_leaves(inode, keep_ms * NS_PER_MS + LATE_NS, "nobody has a file open");
}

/* ---- full ---- */

/* Nobody reads, so that no fill keeps a file. */
static void full_comes(struct lodic *lodic, u32 number)
{
	struct world_open open;
	char path[16];
	int why;

	own_path(number, path);
	idle_opens(lodic, path, &open);
	why = lodic_file_cached(open.file);
	if (why)
		machine_fail(
			"no program has another file open, and %s is not cached: %d",
			path, why);
	if (machine_draw(2))
		port_sleep(machine_draw(100) * NS_PER_MS);
	world_close(&open);
}

/* It is the only program. */
static void full_run(struct lodic *lodic)
{
	for (u32 i = 2 + machine_draw(6); i > 0; i--) {
		full_comes(lodic, machine_draw(idle.nr_own));
		if (machine_draw(4) == 0)
			port_sleep(machine_draw(3000) * NS_PER_MS);
	}
}

/* ---- contexts ---- */

struct contexts {
	struct lodic *lodic;
	struct lodic_context *all[MOST_CONTEXTS];
	u32 nr, nr_pinning;
};

static bool context_may_pin(const struct lodic_context *context)
{
	struct lodic_context_stat stat;

	lodic_context_stat(context, &stat, sizeof(stat));
	return stat.may_pin;
}

static struct lodic_stat contexts_stat(struct contexts *c)
{
	struct lodic_stat stat;
	int err = lodic_stat(c->lodic, &stat, sizeof(stat));

	if (err || stat.contexts != c->nr)
		machine_fail("programs have %u contexts, and the service has %llu: %d",
		             c->nr, (unsigned long long)stat.contexts, err);
	return stat;
}

/* Three quarters of all blocks may be pinned. */
static void contexts_open(struct contexts *c)
{
	u64 frames = contexts_stat(c).frames;
	bool pins;

	if (world_context_open(c->lodic, &c->all[c->nr]) != 0)
		machine_fail("nothing fails, and a program has no context");
	pins = context_may_pin(c->all[c->nr++]);
	if (!pins && idle.quota && (c->nr_pinning + 1) * idle.quota <= frames / 4 * 3)
		machine_fail(
			"%u contexts may pin %u of %llu blocks each, and one more may not",
			c->nr_pinning, idle.quota, (unsigned long long)frames);
	c->nr_pinning += pins;
}

static void contexts_close(struct contexts *c, u32 which)
{
	c->nr_pinning -= context_may_pin(c->all[which]);
	world_context_close(c->all[which]);
	c->all[which] = c->all[--c->nr];
}

/* It is the only program, so nobody else's context is on its way. */
static void contexts_run(struct lodic *lodic)
{
	struct contexts c = { .lodic = lodic };

	for (u32 i = 4 + machine_draw(40); i > 0; i--) {
		if (c.nr < MOST_CONTEXTS && machine_draw(2))
			contexts_open(&c);
		else if (c.nr > 0)
			contexts_close(&c, machine_draw(c.nr));
		contexts_stat(&c);
	}
	while (c.nr > 0)
		contexts_close(&c, 0);
}

/* ---- pestered ---- */

/* Opens a file that a program reads all the time. */
static void pester_run(void *arg)
{
	const char *path = "/own0";
	struct inode *inode = files_find(path);
	u64 met_ns = 0;

	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		u32 nr = inode->nr_broken;
		u64 now_ns = machine.now_ns;
		bool tries = machine_draw(2);
		int fd = tries ? program_try_to_write(path) : -1;

		if (!tries)
			world_rewrite(path, machine_draw(4) == 0);
		if (tries && fd >= 0)
			fd_close(process_now(), fd);
		if (inode->nr_broken != nr) {
			if (met_ns && now_ns < met_ns + idle.pause_ms * NS_PER_MS)
				machine_fail(
					"a writer meets a lease again after %llu us",
					(unsigned long long)((now_ns - met_ns) /
				                             NS_PER_US));
			met_ns = now_ns;
		}
		task_wait(NULL, machine.now_ns + (1 + machine_draw(300)) * NS_PER_MS);
	}
}

static void pestered_run(struct lodic *lodic, struct lodic_context *context)
{
	struct world_open open;

	idle_opens(lodic, "/own0", &open);
	for (u32 i = 200 + machine_draw(300); i > 0; i--) {
		world_read(context, &open);
		port_sleep((1 + machine_draw(100)) * NS_PER_MS);
	}
	world_close(&open);
}

/* ---- all ---- */

static void idle_run(void *arg)
{
	struct settle_has before = settle_look(process_now());
	struct lodic_context *context;
	struct lodic *lodic;
	char path[16];

	own_path((u32)(uintptr_t)arg, path);
	if (world_attach(&lodic) != 0 || world_context_open(lodic, &context) != 0)
		machine_fail("nothing fails, and a program does not attach");
	switch (idle.kind) {
	case IDLE_DELETED: deleted_run(lodic, context, path); break;
	case IDLE_CLOSED: closed_run(lodic, context, path); break;
	case IDLE_FULL: full_run(lodic); break;
	case IDLE_CONTEXTS: break; /* it has its own */
	case IDLE_PESTERED: pestered_run(lodic, context); break;
	case NR_IDLE: break;
	}
	world_context_close(context);
	if (idle.kind == IDLE_CONTEXTS)
		contexts_run(lodic);
	lodic_detach(lodic);
	settle_given_back_but(&before, *world_closed());
}

void scenario_idle(void)
{
	u32 nr = 1 + machine_draw(3);
	char path[16];

	world_no_faults();
	world.adjust = idle_adjust;
	idle.kind = machine_draw(NR_IDLE);
	idle.nr_own = MOST_OWN;
	idle.quota = machine_draw(7);
	idle.keep_ms = machine_draw(2) ? 100 + machine_draw(5000) : 0;
	idle.pause_ms = 1000 + machine_draw(2) * 2000;
	if (idle.kind == IDLE_FULL || idle.kind == IDLE_CONTEXTS)
		nr = 1;
	if (idle.kind == IDLE_FULL)
		idle.keep_ms = 0; /* minutes */
	for (u32 i = 0; i < idle.nr_own; i++) {
		own_path(i, path);
		world_make(path, WORLD_FILE_BYTES);
	}
	for (u32 i = 0; i < nr; i++)
		settle_expect(process_start("sleeper", WORLD_USER, idle_run,
		                            (void *)(uintptr_t)i));
	if (idle.kind == IDLE_PESTERED)
		settle_expect(
			process_start("pest", WORLD_USER, pester_run,
		                      (void *)(uintptr_t)(10 + machine_draw(100))));
}
