/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a kernel says of its knodes, made again by core/kloc's decisions. A core/kloc of the test's
 * own plays the kernel and gets random calls. The test writes its states and moves down as tracefs
 * would print them. So these records have all that life.h decides, and core/kloc agrees with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/kloc/knode_list.h"
#include "host/random.h"
#include "host/sim/sim.h"
#include "sim/tier/kernel_replay.h"
#include "sim/tier/kernel_trace.h"

#define FILES 6u
#define STEPS 400u
#define SEED 20210419u
#define ROOM (1u << 20)

struct file {
	u32 knode, id; /* id 0: there is none */
	u32 object;
	u32 state, why; /* as told last */
	u32 noted;      /* the tick of its last close or unlink */
	bool is_doomed;
};

static struct {
	struct kloc *k;
	FILE *f;
	struct file files[FILES];
	struct kloc_parameters p;
	u32 last_id, now;
	u64 stamp; /* of the events */
	u64 forgiven, retained;
	u64 nr[NR_DECISIONS];
	u64 nr_inputs;
} w;

static char path[] = "/tmp/lodic-kernel-XXXXXX",
	    said[] = "/tmp/lodic-kernel-said-XXXXXX";

/* ---- the kernel's part ---- */

static struct kloc_knode_stat stat_of(const struct file *file)
{
	struct kloc_knode_stat stat = { .state = KLOC_FREE };
	u32 at = file->knode ? file->knode - 1 : KLOC_NONE;

	assert_true(kloc_next_knode(w.k, &at, &stat) && at == file->knode);
	return stat;
}

static void event(const char *name)
{
	fprintf(w.f, "           <...>-%-7u [%03u] ..... %10llu: %s: ", 100 + w.last_id,
	        w.last_id % 4, (unsigned long long)++w.stamp, name);
}

static void tell(enum kernel_decision what, const struct file *file, u32 why)
{
	struct kloc_knode_stat stat = stat_of(file);

	event("kloc_decision");
	fprintf(w.f,
	        "what=%s dev=254:0 ino=%llu knode=%u why=%s fast=%llu slow=%llu now=%u\n",
	        kernel_decision_name(what), (unsigned long long)stat.inode, file->id,
	        kloc_why_name((enum kloc_why)why),
	        (unsigned long long)stat.bytes[KLOC_FAST],
	        (unsigned long long)stat.bytes[KLOC_SLOW], w.now);
	w.nr[what]++;
}

static void take(const char *input, const struct file *file, u64 n)
{
	event("kloc_input");
	fprintf(w.f, "input=%s dev=%s ino=%u knode=%u n=%llu now=%u\n", input,
	        file ? "254:0" : "0:0", file ? 100 + file->id : 0, file ? file->id : 0,
	        (unsigned long long)n, w.now);
	w.nr_inputs++;
}

/* Which knodes have become active or inactive since the last call. */
static void tell_states(void)
{
	for (struct file *file = w.files; file < w.files + FILES; file++) {
		struct kloc_knode_stat stat;

		if (!file->id)
			continue;
		stat = stat_of(file);
		file->why = stat.why;
		if (stat.state == file->state)
			continue;
		file->state = stat.state;
		tell(stat.state == KLOC_ACTIVE ? DECISION_ACTIVATE
		                               : DECISION_DEACTIVATE,
		     file, stat.why);
	}
}

static void log_decision(void *arg, const struct kloc_decision *d)
{
	struct file *file = w.files;
	struct kloc_stat stat;

	(void)arg;
	while (file < w.files + FILES && (!file->id || file->knode != d->knode))
		file++;
	assert_true(file < w.files + FILES);
	tell_states();
	kloc_stat(w.k, &stat);
	if (stat.forgiven != w.forgiven)
		tell(DECISION_FORGIVE, file, KLOC_BY_COUNTER);
	w.forgiven = stat.forgiven;
	if (d->what == KLOC_PLACE && d->to == KLOC_SLOW)
		tell(DECISION_PLACE, file, d->why);
	else if (d->what == KLOC_DEMOTE || d->what == KLOC_PROMOTE)
		tell(d->what == KLOC_DEMOTE ? DECISION_DEMOTE : DECISION_PROMOTE, file,
		     d->why);
	else if (d->what == KLOC_KEEP)
		tell(DECISION_KEEP, file, d->why);
}

static void drain(void)
{
	struct kloc_stat stat;
	struct kloc_move m;

	tell_states();
	while (kloc_next(w.k, &m)) {
		struct file *file = w.files;

		while (!file->id || file->object != m.object)
			file++;
		kloc_moved(w.k, m.object, KLOC_MOVED);
		take("moved", file, 1);
		kloc_stat(w.k, &stat);
		if (stat.retained != w.retained)
			tell(DECISION_RETAIN, file, KLOC_BY_COUNTER);
		w.retained = stat.retained;
	}
	tell_states();
}

/* Each has an object, so that it stays where it is until its end is told. */
static void start_knode(struct file *file, bool is_open)
{
	struct kloc_new n = { .kind = KLOC_FRAME, .bytes = 1 };
	u32 tier;

	*file = (struct file){ .id = ++w.last_id,
		               .object = KLOC_NONE,
		               .state = KLOC_INACTIVE };
	assert_int_equal(kloc_map(w.k, 100 + file->id, 0, &file->knode), 0);
	take("new", file, 0);
	if (is_open) {
		take("open", file, 1);
		kloc_open(w.k, file->knode, 0);
	}
	tell_states();
	take("use", file, 0);
	n.knode = file->knode;
	assert_int_equal(kloc_add(w.k, &n, &file->object, &tier), 0);
}

static void end_knode(struct file *file)
{
	if (file->state == KLOC_ACTIVE)
		tell(DECISION_DEACTIVATE, file, file->why);
	tell(DECISION_END, file, file->why);
	kloc_remove(w.k, file->object);
	take("end", file, 0);
	file->id = 0;
}

static void open_one(struct file *file)
{
	take("open", file, stat_of(file).nr_opens + 1);
	kloc_open(w.k, file->knode, 0);
}

static void close_one(struct file *file)
{
	u32 nr_opens = stat_of(file).nr_opens;

	if (!nr_opens)
		return;
	take("close", file, nr_opens - 1);
	file->noted = w.now;
	kloc_close(w.k, file->knode, 0);
	if (nr_opens == 1 && file->is_doomed)
		end_knode(file);
}

static void unlink_one(struct file *file)
{
	if (file->is_doomed)
		return;
	take("unlink", file, 0);
	file->noted = w.now;
	file->is_doomed = stat_of(file).nr_opens > 0;
	kloc_unlink(w.k, file->knode, 0);
	if (!file->is_doomed)
		end_knode(file);
}

/* What is touched in slow memory a core/kloc that promotes no whole files promotes by itself. */
static void use_one(struct file *file)
{
	if (!w.p.promote_whole && stat_of(file).bytes[KLOC_SLOW])
		return;
	take("use", file, 0);
	kloc_touch(w.k, file->object, 0);
}

/* core/kloc notes a close and an unlink in the CPU's list, where a tick finds them as late uses. */
static void collect(void)
{
	for (struct file *file = w.files; file < w.files + FILES; file++)
		if (file->id && w.now - stat_of(file).age < file->noted)
			take("use", file, 0);
}

static void tick(void)
{
	collect();
	w.now++;
	take("tick", NULL, 0);
	kloc_tick(w.k);
	drain();
}

/* Fast memory is taken away for a moment. */
static void limit(void)
{
	kloc_memsize(w.k, KLOC_FAST, 0);
	drain();
	kloc_memsize(w.k, KLOC_FAST, ROOM);
}

static void step(u64 *seed)
{
	struct file *file = &w.files[random_next(seed) % FILES];
	u32 what = random_next(seed) % 16;

	if (what < 4)
		tick();
	else if (what == 4 && random_next(seed) % 4 == 0)
		limit();
	else if (!file->id)
		start_knode(file, what % 4);
	else if (what < 8)
		open_one(file);
	else if (what < 13)
		close_one(file);
	else if (what < 15)
		use_one(file);
	else if (random_next(seed) % 4 == 0)
		unlink_one(file);
	drain();
}

/* So that each open and close before it has its consequence. */
static void close_open(struct file *file)
{
	while (file->id && stat_of(file).nr_opens) {
		close_one(file);
		drain();
	}
	if (file->id)
		open_one(file);
	drain();
}

/* A kernel's record of random calls. */
static void record(u64 seed, bool promotes)
{
	struct kloc_shape shape = { .capacity = { ROOM, ROOM },
		                    .nr_tiers = 2,
		                    .nr_objects = 64,
		                    .nr_knodes = 64,
		                    .nr_cpus = 1,
		                    .list_length = KNODE_LIST_MAX_LENGTH,
		                    .policy = KLOC_POLICY_KLOC,
		                    .ops = { .log = log_decision } };
	struct kloc_parameters *p = &shape.parameters;
	u32 i;

	memset(&w, 0, sizeof(w));
	kloc_parameters_default(KLOC_POLICY_KLOC, p);
	p->knode_tier = KLOC_NO_TIER;
	p->low_permille = p->high_permille = 0;
	p->age_limit = 3;
	p->ping_pong = 3;
	p->forgive = 2;
	p->promote_whole = promotes;
	w.p = *p;
	sim_begin(&(struct sim_machine){ .nr_sockets = 1, .cpus_per_socket = 1 }, 0);
	assert_int_equal(kloc_init(&shape, &w.k), 0);
	w.f = fopen(path, "w");
	assert_non_null(w.f);
	fputs("# tracer: nop\n#\n", w.f);
	event("kloc_rules");
	fprintf(w.f,
	        "policy=kloc on=1 promote=%d age_limit=3 ping_pong=3 forgive=2 now=0\n",
	        promotes);
	for (i = 0; i < STEPS; i++)
		step(&seed);
	for (i = 0; i < FILES; i++)
		close_open(&w.files[i]);
	kloc_check(w.k);
	kloc_fini(w.k);
	assert_int_equal(fclose(w.f), 0);
}

/* ---- replays ---- */

static void write_text(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Replays it, and keeps what that says. */
static int replay(struct kernel_result *ret, char *ret_said, size_t bytes)
{
	int kept = dup(STDERR_FILENO), fd = open(said, O_RDWR | O_TRUNC), err;
	ssize_t got;

	assert_true(kept >= 0 && fd >= 0);
	fflush(stderr);
	dup2(fd, STDERR_FILENO);
	err = kernel_replay(path, ret);
	fflush(stderr);
	dup2(kept, STDERR_FILENO);
	got = pread(fd, ret_said, bytes - 1, 0);
	assert_true(got >= 0);
	ret_said[got] = '\0';
	close(kept);
	close(fd);
	return err;
}

static void replay_of_random_calls_same_decisions(void **state)
{
	u64 nr[NR_DECISIONS] = { 0 }, all = 0;
	struct kernel_result result;
	char text[1024];
	u32 seed, i;

	(void)state;
	printf("seeds from %u\n", SEED);
	for (seed = SEED; seed < SEED + 50; seed++) {
		record(seed, seed & 1);
		if (replay(&result, text, sizeof(text)) != 0)
			fail_msg("seed %u: %s", seed, text);
		assert_string_equal(result.policy, "kloc");
		assert_int_equal(result.nr_inputs, w.nr_inputs);
		assert_int_equal(result.nr_knodes, w.last_id);
		assert_int_equal(result.nr_left_out, 0);
		for (i = all = 0; i < NR_DECISIONS; i++) {
			nr[i] += w.nr[i];
			all += w.nr[i];
		}
		assert_int_equal(result.nr_decisions, all);
	}
	for (i = 0; i < NR_DECISIONS; i++) {
		printf("%s %llu\n", kernel_decision_name((enum kernel_decision)i),
		       (unsigned long long)nr[i]);
		assert_true(nr[i] > 20);
	}
}

/* Each line of the record in turn: it is not there, or tells another reason. */
static void replay_of_broken_record_einval(void **state)
{
	/* A missing use or move shows only in what follows, and perhaps nothing does. */
	static const char *const lines[] = {
		"input=open", "input=close", "input=tick", "input=unlink", "kloc_rules",
		"what=act",   "what=dea",    "what=dem",   "what=pro",     "what=keep",
		"what=ret",   "what=forg",   "what=end"
	};
	static char whole[1 << 20], broken[sizeof(whole)];
	struct kernel_result result;
	char text[1024], *line, *next;
	u32 nr = 0;
	size_t length, i;
	FILE *f;

	(void)state;
	record(SEED, true);
	f = fopen(path, "r");
	assert_non_null(f);
	length = fread(whole, 1, sizeof(whole) - 1, f);
	fclose(f);
	whole[length] = '\0';
	for (line = whole; *line; line = next) {
		char *why;

		next = strchr(line, '\n') + 1;
		snprintf(text, sizeof(text), "%.*s", (int)(next - line), line);
		for (i = 0; i < sizeof(lines) / sizeof(*lines); i++)
			if (strstr(text, lines[i]))
				break;
		/* Nobody asks for what need takes, nor for another tick. */
		if (i == sizeof(lines) / sizeof(*lines) ||
		    (strstr(text, "input=tick") && !strstr(next, "input=tick")) ||
		    (strstr(text, "what=demote") && strstr(text, "why=limit")))
			continue;
		snprintf(broken, sizeof(broken), "%.*s%s", (int)(line - whole), whole,
		         next);
		write_text(broken);
		if (replay(&result, text, sizeof(text)) != -EINVAL)
			fail_msg("without '%.*s' it is the same", (int)(next - line),
			         line);
		assert_non_null(strstr(text, ": line "));
		nr++;
		why = strstr(line, " why=");
		if (!why || why > next)
			continue;
		snprintf(broken, sizeof(broken), "%.*s why=busy %s", (int)(why - whole),
		         whole, strchr(why + 1, ' ') + 1);
		write_text(broken);
		assert_int_equal(replay(&result, text, sizeof(text)), -EINVAL);
		assert_non_null(strstr(text, "why=busy"));
	}
	printf("%u lines\n", nr);
	assert_true(nr > 300);
}

#define AT "  sh-1  [000] .....  1: "
#define RULES \
	AT "kloc_rules: policy=kloc on=1 promote=0 age_limit=3 ping_pong=8 forgive=64 now=0\n"
#define INPUT(what, n) \
	AT "kloc_input: input=" what " dev=8:1 ino=5 knode=1 n=" n " now=0\n"
#define DECISION(what, why) \
	AT "kloc_decision: what=" what " dev=8:1 ino=5 knode=1 why=" why \
	   " fast=9 slow=0 now=0\n"
#define OPENED RULES INPUT("new", "0") INPUT("open", "1") DECISION("activate", "state")

static void replay_of_rubbish_einval(void **state)
{
	static const char *const rubbish[] = {
		"",
		"\n",
		"root:x:0:0\n",
		"# tracer: nop\n",
		OPENED "CPU:1 [LOST 7 EVENTS]\n",
		INPUT("new", "0"),
		RULES INPUT("new", "0") INPUT("new", "0"),
		RULES INPUT("fly", "0"),
		RULES INPUT("open", "x"),
		RULES INPUT("open", "99999999999999999999"),
		RULES AT "kloc_input: input=tick dev=0:0 ino=0 n=0 now=0\n",
		RULES AT "kloc_input: input=tick dev=0:0 ino=0 knode=0 n=0 now=0",
		AT
		"kloc_rules: policy=none on=1 promote=0 age_limit=3 ping_pong=8 forgive=6 now=0\n",
		AT
		"kloc_rules: policy=kloc on=1 promote=2 age_limit=3 ping_pong=8 forgive=6 now=0\n",
		OPENED INPUT("open", "1"),
		OPENED INPUT("close", "0") DECISION("deactivate", "state"),
		OPENED INPUT("close", "0") DECISION("deactivate", "state")
			DECISION("promote", "state"),
		OPENED DECISION("demote", "need"),
		OPENED DECISION("deactivate", "age"),
		OPENED DECISION("place", "state"),
		OPENED DECISION("sink", "state"),
		OPENED DECISION("demote", "envy"),
	};
	struct kernel_result result;
	char text[1024];
	u32 i;

	(void)state;
	for (i = 0; i < sizeof(rubbish) / sizeof(*rubbish); i++) {
		write_text(rubbish[i]);
		if (replay(&result, text, sizeof(text)) != -EINVAL || !*text)
			fail_msg("rubbish %u: %s", i, text);
	}
	write_text(OPENED INPUT("close", "0") DECISION("deactivate", "state")
	                   DECISION("demote", "state") DECISION("place", "state"));
	assert_int_equal(replay(&result, text, sizeof(text)), 0);
	/* Closed while it is off: nothing moves. */
	write_text(OPENED AT "kloc_rules: policy=kloc on=0 promote=0 age_limit=3 "
	                     "ping_pong=8 forgive=64 now=0\n" INPUT("close", "0")
	                             DECISION("deactivate", "state"));
	assert_int_equal(replay(&result, text, sizeof(text)), 0);
	unlink(path);
	assert_int_equal(replay(&result, text, sizeof(text)), -ENOENT);
}

/* What was before the first rules, and events of somebody else. */
static void replay_of_other_lines_left_out(void **state)
{
	struct kernel_result result;
	char text[1024], longer[3000];

	(void)state;
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 2] = '\n';
	longer[sizeof(longer) - 1] = '\0';
	write_text(longer);
	assert_int_equal(replay(&result, text, sizeof(text)), -EINVAL);
	write_text(INPUT("new", "0") RULES INPUT("close", "1")
	                   DECISION("deactivate", "age") AT
	           "mm_migrate_pages: nr_succeeded=9\n" AT
	           "kloc_input: input=tick dev=0:0 ino=0 knode=0 n=0 now=1\n");
	assert_int_equal(replay(&result, text, sizeof(text)), 0);
	assert_int_equal(result.nr_left_out, 3);
	assert_int_equal(result.nr_inputs, 1);
	assert_int_equal(result.nr_decisions, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replay_of_random_calls_same_decisions),
		cmocka_unit_test(replay_of_broken_record_einval),
		cmocka_unit_test(replay_of_rubbish_einval),
		cmocka_unit_test(replay_of_other_lines_left_out),
	};
	int fd = mkstemp(path), other = mkstemp(said), failed;

	assert_true(fd >= 0 && other >= 0);
	close(fd);
	close(other);
	failed = cmocka_run_group_tests_name("kernel_replay", tests, NULL, NULL);
	unlink(path);
	unlink(said);
	return failed;
}
