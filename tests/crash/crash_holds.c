/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Holders die, stop, fork and exec, and so does the service, while a writer changes the files.
 * Four holders look at every byte of what they have, all the time. What is held must stand. A
 * hold that is begun after a writer's open has returned must show no older generation, and never
 * a mixture (tests/support/generations.h).
 *
 * Meanwhile a sampler looks at the service from outside. What holds have never exceeds their
 * limit: neither as the service says, nor as the kernel says of the memfds. It also has the files
 * brought from tier to tier, so that holds which nobody has move. Now and then all
 * holders die at once. Then nothing is in use any more. When all files are dropped, no memfd and
 * no descriptor is left.
 *
 * A holder starts each successor of the service. No service dies but by this test.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/hold_watch.h"
#include "tests/support/holder.h"

#define NR_HOLDERS 4u
#define MIB ((u64)1 << 20)
/* Less than all that holders want, so that there is often no room. */
#define HOLD_BYTES (16 * MIB)
#define MOST_LIFE_US 4000u
#define MOST_PAUSE_US 3000u
#define MOST_STOP_US 3000u
/* Of 100 kills so many are of the service, and of ten of these so many in order. */
#define SERVICE_KILLS 10u
#define IN_ORDER 4u
#define STOPS_ONE_IN 8u
#define CHECKPOINTS 4u

struct common {
	struct holder_life lives[NR_HOLDERS];
	struct holder_world world;
	char log[FIXTURE_PATH_BYTES + 8];
	int pids[NR_HOLDERS]; /* the parent writes; 0: none */
	int stopped;          /* the service, by the sampler */
	u64 ends;             /* odd while the parent ends a service */
	u64 pause, paused;    /* the writer shall rest; it does */
	u64 changes[GEN_NR_CHANGES];
	u64 samples, snapshots, most_bytes, most_present;
	u64 most_moved; /* holds, from tier to tier, by one service */
};
static struct common *common;

static u64 nr_kills = 100;
static struct {
	u64 kills, at[NR_STAGES], services, restarts, stops, checkpoints;
} total;

static u32 nr_descriptors_alone;

/* ---- the writer, and the sampler ---- */

static void bump(u64 *p)
{
	host_fetch_add(p, 1);
}

static _Noreturn void writer_run(void)
{
	u64 random = random_stream(1);

	for (;;) {
		while (host_load_acquire(&common->pause)) {
			host_store_release(&common->paused, 1);
			fixture_pause_us(500);
		}
		host_store_release(&common->paused, 0);
		enum gen_change change =
			(enum gen_change)random_below(&random, GEN_NR_CHANGES);
		gen_file_change(
			&common->world.files[random_below(&random, HOLDER_FILES)],
			change, &random);
		bump(&common->changes[change]);
		fixture_pause_us(random_below(&random, MOST_PAUSE_US));
	}
}

static void sampler_see(const struct lodic_stat *stat, int pid)
{
	const struct hold_watched watched = { .since = common->log,
		                              .pids = common->pids,
		                              .stopped = &common->stopped,
		                              .nr_pids = NR_HOLDERS };
	u64 ends = host_load_acquire(&common->ends);
	struct hold_memory memory;

	REQUIRE(stat->hold_limit == HOLD_BYTES &&
	                stat->hold_bytes <= stat->hold_limit &&
	                stat->hold_used_bytes <= stat->hold_bytes,
	        "limit %llu, %llu, %llu in use", (unsigned long long)stat->hold_limit,
	        (unsigned long long)stat->hold_bytes,
	        (unsigned long long)stat->hold_used_bytes);
	if (stat->hold_bytes > common->most_bytes)
		common->most_bytes = stat->hold_bytes;
	bump(&common->samples);
	if (common->samples % 4 || !hold_watch_memory_at_once(pid, &watched, &memory))
		return;
	REQUIRE(memory.bytes <= HOLD_BYTES && memory.present <= HOLD_BYTES,
	        "%u memfds of %llu bytes have %llu", memory.nr,
	        (unsigned long long)memory.bytes, (unsigned long long)memory.present);
	/* A service that ends closes what it has. */
	REQUIRE(memory.nr_uncounted == 0 || ends % 2 ||
	                host_load_acquire(&common->ends) != ends,
	        "%u memfds that the service does not count", memory.nr_uncounted);
	if (memory.present > common->most_present)
		common->most_present = memory.present;
	bump(&common->snapshots);
}

static _Noreturn void sampler_run(void)
{
	u64 random = random_stream(2), moved;
	u32 to[HOLDER_FILES] = { 0 }, file;
	struct lodic_stat stat;
	int pid;

	for (;;) {
		if (hold_watch_stat(common->world.socket, &stat, &pid) == 0)
			sampler_see(&stat, pid);
		file = (u32)random_below(&random, HOLDER_FILES);
		moved = hold_watch_move(common->world.socket,
		                        common->world.files[file].path, &to[file]);
		if (moved > common->most_moved)
			common->most_moved = moved;
		fixture_pause_us(1000);
	}
}

/* ---- the parent ---- */

struct herd {
	pid_t pids[NR_HOLDERS];
	pid_t writer, sampler;
	u64 births, random;
};

static void herd_check(const struct herd *h)
{
	int status;

	REQUIRE(waitpid(h->writer, &status, WNOHANG) == 0, "the writer has ended");
	REQUIRE(waitpid(h->sampler, &status, WNOHANG) == 0, "the sampler has ended");
	for (u32 i = 0; i < NR_HOLDERS; i++)
		REQUIRE(h->pids[i] == 0 || waitpid(h->pids[i], &status, WNOHANG) == 0,
		        "holder %u had ended by itself: %x", i, status);
}

static void herd_start(struct herd *h, u32 slot)
{
	struct holder_life *life = &common->lives[slot];

	life->stage = life->has = life->execed = 0;
	h->pids[slot] = fixture_fork();
	if (h->pids[slot] == 0)
		holder_run(&common->world, life, 100 + h->births);
	common->pids[slot] = h->pids[slot];
	h->births++;
}

static void herd_kill(struct herd *h, u32 slot)
{
	const struct holder_life *life = &common->lives[slot];
	int status;

	common->pids[slot] = 0;
	kill(h->pids[slot], SIGKILL);
	REQUIRE(waitpid(h->pids[slot], &status, 0) == h->pids[slot] &&
	                WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	        "holder %u had ended by itself: %x", slot, status);
	h->pids[slot] = 0;
	total.kills++;
	total.at[life->has && life->stage == STAGE_REST ? STAGE_HOLDS : life->stage]++;
}

/* Everyone goes on, with or without a service. */
static void herd_progress(const struct herd *h)
{
	for (u32 i = 0; i < NR_HOLDERS; i++) {
		const struct holder_life *life = &common->lives[i];
		u64 before = host_load_acquire(&life->progress);

		REQUIRE(h->pids[i] == 0 ||
		                WAIT_UNTIL(
					host_load_acquire(&life->progress) != before ||
					host_load_acquire(&life->execed) ||
					waitpid(h->pids[i], NULL, WNOHANG | WNOWAIT) !=
						0),
		        "holder %u hangs while %s", i,
		        holder_stage_names[host_load_acquire(&life->stage)]);
	}
	herd_check(h);
}

static int service_pid(void)
{
	struct lodic_stat stat;
	int pid = 0;

	REQUIRE(WAIT_UNTIL(hold_watch_stat(common->world.socket, &stat, &pid) == 0),
	        "nobody has started a service");
	return pid;
}

static void herd_kill_service(struct herd *h)
{
	int pid = service_pid();

	bump(&common->ends);
	if (random_below(&h->random, SERVICE_KILLS) < IN_ORDER) {
		fixture_end(pid);
		total.restarts++;
	} else {
		kill(pid, SIGKILL);
		total.services++;
	}
	total.kills++;
	herd_progress(h);
	(void)WAIT_UNTIL(service_pid() != pid);
	bump(&common->ends);
}

/* Holders are stopped anywhere, while files change. */
static void herd_stop(struct herd *h)
{
	for (u32 i = 0; i < NR_HOLDERS; i++)
		if (random_below(&h->random, 2)) {
			kill(h->pids[i], SIGSTOP);
			total.stops++;
		}
	fixture_pause_us(random_below(&h->random, MOST_STOP_US));
	for (u32 i = 0; i < NR_HOLDERS; i++)
		kill(h->pids[i], SIGCONT);
}

/* When all holders are dead nothing is in use; and when all is dropped, nothing is there. */
static void herd_checkpoint(struct herd *h)
{
	struct hold_memory memory = { 0 };
	struct lodic_stat stat = { 0 };
	int pid;

	host_store_release(&common->pause, 1);
	REQUIRE(WAIT_UNTIL(host_load_acquire(&common->paused)), "the writer hangs");
	pid = service_pid();
	for (u32 i = 0; i < NR_HOLDERS; i++)
		herd_kill(h, i);
	/* The sampler may have stopped the service just now. */
	REQUIRE(WAIT_UNTIL(hold_watch_stat(common->world.socket, &stat, &pid) == 0 &&
	                   stat.hold_used_bytes == 0),
	        "%llu bytes in use by the dead",
	        (unsigned long long)stat.hold_used_bytes);
	REQUIRE(WAIT_UNTIL(hold_watch_drop(common->world.socket) == 0), "not dropped");
	REQUIRE(WAIT_UNTIL(hold_watch_stat(common->world.socket, &stat, &pid) == 0 &&
	                   stat.hold_bytes == 0 && stat.holds == 0),
	        "%llu bytes, %llu holds left", (unsigned long long)stat.hold_bytes,
	        (unsigned long long)stat.holds);
	REQUIRE(hold_watch_memory(pid, &memory) && memory.nr == 0, "%u memfds left",
	        memory.nr);
	/* The sampler comes and goes. */
	REQUIRE(WAIT_UNTIL(hold_watch_nr_descriptors(pid) <= nr_descriptors_alone),
	        "%u descriptors, alone it has %u", hold_watch_nr_descriptors(pid),
	        nr_descriptors_alone);
	total.checkpoints++;
	host_store_release(&common->pause, 0);
}

static struct holder_life sum_up(void)
{
	struct holder_life sum = { 0 };

	for (u32 i = 0; i < NR_HOLDERS; i++) {
		const struct holder_life *l = &common->lives[i];

		sum.began += l->began;
		sum.ready += l->ready;
		sum.refused += l->refused;
		sum.given_up += l->given_up;
		sum.looks += l->looks;
		sum.words += l->words;
		sum.outlived += l->outlived;
		sum.forks += l->forks;
		sum.execs += l->execs;
		sum.descriptors += l->descriptors;
		sum.detached += l->detached;
		sum.wrong += l->wrong;
	}
	return sum;
}

static bool seen_all(void)
{
	struct holder_life sum = sum_up();

	return sum.outlived > 0 && sum.forks > 0 && sum.execs > 0 &&
	       sum.descriptors > 0 && sum.detached > 0 && common->snapshots > 0 &&
	       total.services > 0 && total.restarts > 0 && total.stops > 0;
}

static void herd_run(struct herd *h)
{
	u64 next = nr_kills / CHECKPOINTS;
	u32 slot;

	for (slot = 0; slot < NR_HOLDERS; slot++)
		herd_start(h, slot);
	/* The rare things may want some more. */
	while (total.kills + NR_HOLDERS < nr_kills ||
	       (total.kills < 10 * nr_kills && !seen_all())) {
		if (random_below(&h->random, STOPS_ONE_IN) == 0)
			herd_stop(h);
		slot = (u32)random_below(&h->random, NR_HOLDERS);
		if (random_below(&h->random, 2))
			REQUIRE(WAIT_UNTIL(
					host_load_acquire(&common->lives[slot].has) >
						0 ||
					host_load_acquire(&common->lives[slot].execed)),
			        "holder %u holds nothing", slot);
		fixture_pause_us(random_below(&h->random, MOST_LIFE_US));
		herd_check(h);
		if (random_below(&h->random, 100) < SERVICE_KILLS) {
			herd_kill_service(h);
			continue;
		}
		herd_kill(h, slot);
		herd_start(h, slot);
		if (random_below(&h->random, 8) == 0)
			herd_progress(h);
		if (total.kills < next)
			continue;
		next += nr_kills / CHECKPOINTS;
		herd_checkpoint(h);
		for (slot = 0; slot < NR_HOLDERS; slot++)
			herd_start(h, slot);
		if (nr_kills >= 1000)
			printf("%llu kills so far\n", (unsigned long long)total.kills);
		fflush(stdout);
	}
	herd_checkpoint(h);
}

/* Every service that began was killed by this test, or ended in order. */
static void check_log(void)
{
	u64 began = holder_log_count(&common->world, 's'),
	    ended = holder_log_count(&common->world, 'e'),
	    leaked = holder_log_count(&common->world, 'L');

	REQUIRE(leaked == 0, "%llu services leaked", (unsigned long long)leaked);
	REQUIRE(began == 1 + total.services + total.restarts &&
	                ended == 1 + total.restarts,
	        "%llu services began, %llu were killed, %llu of %llu ended in order",
	        (unsigned long long)began, (unsigned long long)total.services,
	        (unsigned long long)ended, (unsigned long long)total.restarts + 1);
}

static void report(u64 ns)
{
	struct holder_life sum = sum_up();

	for (u32 i = 0; i < GEN_NR_CHANGES; i++)
		printf("%s %llu, ", gen_change_names[i],
		       (unsigned long long)common->changes[i]);
	printf("holders stopped %llu\n", (unsigned long long)total.stops);
	printf("killed while asking %llu, waiting %llu, holding %llu, resting %llu; forks "
	       "%llu, execs %llu, descriptors %llu, detached %llu\n",
	       (unsigned long long)total.at[STAGE_ASKS],
	       (unsigned long long)total.at[STAGE_WAITS],
	       (unsigned long long)total.at[STAGE_HOLDS],
	       (unsigned long long)total.at[STAGE_REST], (unsigned long long)sum.forks,
	       (unsigned long long)sum.execs, (unsigned long long)sum.descriptors,
	       (unsigned long long)sum.detached);
	printf("holds begun %llu, ready %llu, refused %llu, given up %llu; looks %llu, of "
	       "these after a change %llu; words %llu\n",
	       (unsigned long long)sum.began, (unsigned long long)sum.ready,
	       (unsigned long long)sum.refused, (unsigned long long)sum.given_up,
	       (unsigned long long)sum.looks, (unsigned long long)sum.outlived,
	       (unsigned long long)sum.words);
	printf("limit %llu bytes: at most %llu as the service says in %llu samples, %llu as "
	       "the kernel says in %llu\n",
	       (unsigned long long)HOLD_BYTES, (unsigned long long)common->most_bytes,
	       (unsigned long long)common->samples,
	       (unsigned long long)common->most_present,
	       (unsigned long long)common->snapshots);
	printf("at most %llu holds moved from tier to tier by one service\n",
	       (unsigned long long)common->most_moved);
	printf("%llu kills, %llu of the service, and %llu restarts of it; %llu wrong, 0 hung, "
	       "0 memfds leaked at %llu checkpoints, in %.1f s\n",
	       (unsigned long long)total.kills, (unsigned long long)total.services,
	       (unsigned long long)total.restarts, (unsigned long long)sum.wrong,
	       (unsigned long long)total.checkpoints, (double)ns / 1e9);
	REQUIRE(sum.wrong == 0, "wrong bytes");
	REQUIRE(sum.ready > nr_kills / 2 && seen_all() && common->most_moved > 0,
	        "too little was done");
}

/* A first service, and what it has while nobody uses it. */
static void begin(u64 *random)
{
	struct test_service service = { 0 };
	struct lodic_stat stat;
	int pid;

	fixture_path(common->world.socket, "s");
	snprintf(common->log, sizeof(common->log), "%s.log", common->world.socket);
	memcpy(service.socket, common->world.socket, sizeof(service.socket));
	for (u32 i = 0; i < HOLDER_FILES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		gen_file_make(&common->world.files[i], name, i + 1, random);
	}
	holder_start_service(&common->world);
	fixture_need_leases(&service, common->world.files[0].path);
	REQUIRE(hold_watch_drop(common->world.socket) == 0, "not dropped");
	REQUIRE(WAIT_UNTIL(hold_watch_stat(common->world.socket, &stat, &pid) == 0 &&
	                   stat.clients <= 1 && stat.files == 0),
	        "the first service does not come to rest");
	nr_descriptors_alone = hold_watch_nr_descriptors(pid);
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--kills", .number = &nr_kills },
		{ 0 },
	};
	struct service_options service = { .sizes.cache_bytes = 2 * MIB,
		                           .sizes.fast_bytes = MIB,
		                           .sizes.hold_bytes = HOLD_BYTES,
		                           .keeping.nr_files = 64 };
	struct herd h = { 0 };
	u64 start;

	holder_begin_program(argc, argv, &service);
	fixture_begin(argc, argv, options);
	h.random = random_stream(0);
	common = fixture_shared(sizeof(*common));
	hold_watch_guard(&common->stopped);
	begin(&h.random);
	start = host_now_ns();
	h.writer = fixture_fork();
	if (h.writer == 0)
		writer_run();
	h.sampler = fixture_fork();
	if (h.sampler == 0)
		sampler_run();
	herd_run(&h);
	herd_check(&h);
	kill(h.writer, SIGKILL);
	waitpid(h.writer, NULL, 0);
	kill(h.sampler, SIGKILL);
	waitpid(h.sampler, NULL, 0);
	/* The sampler may have stopped it, and then it does not say who it is. */
	if (common->stopped > 0)
		kill(common->stopped, SIGCONT);
	fixture_end(service_pid());
	check_log();
	report(host_now_ns() - start);
	return 0;
}
