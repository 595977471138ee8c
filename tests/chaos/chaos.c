/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The real thing in chaos: see chaos.h. This program starts the others, and `lodic` itself. At
 * random it kills and stops them, and has the cache resized, replaced, dropped and ended. Once a
 * minute it lets all go on undisturbed: then each watcher must get each file from the cache.
 *
 *     chaos --lodic build/lodic [--minutes 20 | --seconds N] [--seed N]
 *
 * It cannot kill a writer, which would leave a file that is half changed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/chaos/crew.h"
#include "tests/support/hold_watch.h"

#define HOT_HITS 4u
#define SECOND_NS ((u64)1000000000)
#define PROGRESS_NS (10 * SECOND_NS)
#define CALM_NS (60 * SECOND_NS)
#define CALM_MS 60000u
/* Shorter than the kernel waits for a lease: /proc/sys/fs/lease-break-time is 45 s. */
#define STOP_MOST_US 2000000u
#define PAUSE_LEAST_US 20000u
#define PAUSE_MOST_US 400000u

enum act {
	ACT_KILL,
	ACT_REPLACE,
	ACT_RESIZE,
	ACT_DROP,
	ACT_END,
	ACT_START,
	ACT_LOAD,
	ACT_LOOK,
	ACT_FREEZE,
	ACT_KILL_PROGRAM,
	ACT_FREEZE_PROGRAM,
	NR_ACTS
};
static const char *const act_names[NR_ACTS] = {
	"killed",  "replaced",        "resized",         "dropped",
	"ended",   "started",         "loaded",          "looked at",
	"stopped", "programs killed", "programs stopped"
};

static u64 nr_minutes = 20, nr_seconds; /* nr_seconds: if it is not 0 */
static u64 random_state, begun_ns;
static u64 nr_acts[NR_ACTS], nr_calms;
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

static pid_t service_any(void)
{
	pid_t found[MOST_SERVICES];
	u32 nr = crew_services(found);

	return nr ? found[random_below(&random_state, nr)] : 0;
}

/* ---- what happens to them ---- */

static void service_freeze(void)
{
	pid_t pid = crew.frozen ? 0 : service_any();

	if (!pid)
		return;
	/* The guard lets it go on, should this program be killed. */
	crew.frozen = crew.world->stopped = pid;
	crew.frozen_ns =
		host_now_ns() + random_below(&random_state, STOP_MOST_US) * 1000;
	kill(pid, SIGSTOP);
	nr_acts[ACT_FREEZE]++;
}

static void let_go_on(bool all)
{
	u64 now = host_now_ns();

	if (crew.frozen && (all || now >= crew.frozen_ns)) {
		kill(crew.frozen, SIGCONT);
		crew.frozen = crew.world->stopped = 0;
	}
	for (u32 i = 0; i < NR_CLIENTS; i++) {
		struct client *c = &crew.clients[i];

		if (c->pid && c->go_on_ns && (all || now >= c->go_on_ns)) {
			kill(c->pid, SIGCONT);
			c->go_on_ns = 0;
		}
	}
}

static void client_disturb(bool kills)
{
	struct client *c = &crew.clients[random_below(&random_state, NR_CLIENTS)];

	if (!c->pid || (kills && c->role >= ROLE_WRITER))
		return;
	if (kills) {
		c->doomed = true;
		kill(c->pid, SIGKILL);
		nr_acts[ACT_KILL_PROGRAM]++;
		return;
	}
	c->go_on_ns = host_now_ns() + random_below(&random_state, STOP_MOST_US) * 1000;
	kill(c->pid, SIGSTOP);
	nr_acts[ACT_FREEZE_PROGRAM]++;
}

static void service_start(bool replaces)
{
	char size[16];
	u64 bytes = (u64)1024 << random_below(&random_state, 8);

	snprintf(size, sizeof(size), "%lluK", (unsigned long long)bytes);
	if (replaces)
		COMMAND("serve", "--memory", size, "--lease-pause", "0", "--quiet",
		        "--replace");
	else
		COMMAND("serve", "--memory", size, "--lease-pause", "0", "--quiet");
}

static void cache_resize(void)
{
	char size[16];
	u64 bytes = (u64)1024 << random_below(&random_state, 8);

	snprintf(size, sizeof(size), "%lluK", (unsigned long long)bytes);
	COMMAND("resize", size);
}

static void cache_look(void)
{
	static const char *const ways[] = { "stat", "files", "who", "tier" };

	COMMAND(ways[random_below(&random_state, 4)]);
}

static void cache_load(void)
{
	u64 file = random_below(&random_state, CHAOS_REPLACED);

	if (random_below(&random_state, 2))
		COMMAND("load", "--hold", crew.world->replaced[file].path);
	else
		COMMAND("load", crew.world->watched[file].path);
}

static void act(enum act what)
{
	pid_t pid;

	switch (what) {
	case ACT_FREEZE: service_freeze(); return;
	case ACT_KILL_PROGRAM: client_disturb(true); return;
	case ACT_FREEZE_PROGRAM: client_disturb(false); return;
	case ACT_KILL:
		pid = service_any();
		if (pid)
			kill(pid, SIGKILL);
		break;
	case ACT_REPLACE: service_start(true); break;
	case ACT_START: service_start(false); break;
	case ACT_RESIZE: cache_resize(); break;
	case ACT_DROP: COMMAND("drop", "--all"); break;
	case ACT_END: COMMAND("stop"); break;
	case ACT_LOAD: cache_load(); break;
	default: cache_look();
	}
	nr_acts[what]++;
}

static void turn(void)
{
	crew_collect();
	let_go_on(false);
	for (u32 i = 0; i < NR_CLIENTS; i++)
		if (!crew.clients[i].pid &&
		    !(crew.clients[i].role >= ROLE_WRITER && crew.world->stop))
			crew_client_start(&crew.clients[i]);
}

/* ---- what all have seen ---- */

struct seen {
	struct watcher_tally watched;
	struct holder_life held;
	struct shim_tally shim;
	u64 wrong;
};

static struct seen sum_up(void)
{
	const struct chaos_world *world = crew.world;
	struct seen sum = { 0 };

	for (u32 i = 0; i < CHAOS_WATCHERS; i++) {
		sum.watched.reads += world->tallies[i].reads;
		sum.watched.hits += world->tallies[i].hits;
		sum.watched.pins += world->tallies[i].pins;
		sum.watched.views += world->tallies[i].views;
		sum.watched.exact += world->tallies[i].exact;
		sum.watched.snapshots += world->tallies[i].snapshots;
		sum.wrong += world->tallies[i].wrong;
	}
	for (u32 i = 0; i < CHAOS_HOLDERS; i++) {
		sum.held.ready += world->lives[i].ready;
		sum.held.looks += world->lives[i].looks;
		sum.held.outlived += world->lives[i].outlived;
		sum.wrong += world->lives[i].wrong;
	}
	for (u32 i = 0; i < CHAOS_SHIMS; i++) {
		sum.shim.reads += world->shims[i].reads;
		sum.shim.maps += world->shims[i].maps;
		sum.shim.served += world->shims[i].served;
		sum.shim.looks += world->shims[i].looks;
		sum.wrong += world->shims[i].wrong;
	}
	return sum;
}

static void progress(void)
{
	struct seen sum = sum_up();

	printf("[%5.0f s] %llu reads, pins and views, %llu blocks of them from the cache; %llu "
	       "holds; shim: %llu reads, %llu of %llu mappings served; %llu changes; %llu wrong, "
	       "%llu failed\n",
	       (double)(host_now_ns() - begun_ns) / 1e9,
	       (unsigned long long)(sum.watched.reads + sum.watched.pins +
	                            sum.watched.views),
	       (unsigned long long)sum.watched.hits, (unsigned long long)sum.held.ready,
	       (unsigned long long)sum.shim.reads, (unsigned long long)sum.shim.served,
	       (unsigned long long)sum.shim.maps,
	       (unsigned long long)crew.world->changes, (unsigned long long)sum.wrong,
	       (unsigned long long)crew.failed);
	fflush(stdout);
}

/* Returns how many looks were wrong. */
static u64 summary(void)
{
	struct seen sum = sum_up();

	/* In a few seconds on a busy machine nothing may have happened yet. */
	if (!interrupted && nr_seconds == 0 &&
	    (!sum.watched.hits || !sum.watched.snapshots || !sum.held.outlived))
		crew_fail("too little was done",
		          "hits, pins or holds that outlive a change", 0);
	progress();
	printf("%llu looks of watchers compared exactly, %llu pins unchanged after a change; %llu "
	       "looks at holds, %llu of them after a change; %llu at mappings\n",
	       (unsigned long long)sum.watched.exact,
	       (unsigned long long)sum.watched.snapshots,
	       (unsigned long long)sum.held.looks,
	       (unsigned long long)sum.held.outlived,
	       (unsigned long long)sum.shim.looks);
	printf("the service: ");
	for (u32 i = 0; i < NR_ACTS; i++)
		printf("%s%s %llu", i ? ", " : "", act_names[i],
		       (unsigned long long)nr_acts[i]);
	printf("\n%llu wrong, %llu failed; %llu times all files came back; seed=%llu\n",
	       (unsigned long long)sum.wrong, (unsigned long long)crew.failed,
	       (unsigned long long)nr_calms, (unsigned long long)fixture_seed());
	return sum.wrong;
}

static bool all_hot(void)
{
	turn();
	for (u32 i = 0; i < CHAOS_WATCHED; i++)
		if (!watched_file_is_hot(&crew.world->watched[i], HOT_HITS))
			return false;
	return true;
}

static bool writers_ended(void)
{
	turn();
	return !crew.clients[NR_CLIENTS - 1].pid && !crew.clients[NR_CLIENTS - 2].pid;
}

/* Nothing fails for a while. Then all must come back to the cache. */
static void calm(void)
{
	let_go_on(true);
	host_store_release(&crew.world->stop, 1);
	if (!WAIT_UNTIL_MS(writers_ended() || interrupted, CALM_MS))
		crew_fail("a writer hangs", "an open(2) that waits for a lease?", 0);
	/* Room for all of it. If a service runs, this one says so and ends. */
	COMMAND("serve", "--memory", "16M", "--lease-pause", "0", "--quiet");
	if (!WAIT_UNTIL_MS(all_hot() || interrupted, CALM_MS))
		crew_fail("not cached again", "a watched file", 0);
	nr_calms++;
	host_store_release(&crew.world->stop, 0);
}

/* ---- from the beginning to the end ---- */

static void begin(void)
{
	struct test_service service = { 0 };
	struct lodic_stat stat;
	int pid;
	u32 n = 0;

	crew.world->holders.resized = true;
	fixture_path(crew.world->holders.socket, "s");
	memcpy(service.socket, crew.world->holders.socket, sizeof(service.socket));
	for (u32 i = 0; i < CHAOS_WATCHED; i++)
		watched_file_init(&crew.world->watched[i], i + 1, CHAOS_WATCHERS,
		                  &random_state);
	for (u32 i = 0; i < HOLDER_FILES + CHAOS_REPLACED; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		gen_file_make(i < HOLDER_FILES
		                      ? &crew.world->holders.files[i]
		                      : &crew.world->replaced[i - HOLDER_FILES],
		              name, CHAOS_WATCHED + 1 + i, &random_state);
	}
	COMMAND("serve", "--memory", "16M", "--lease-pause", "0", "--quiet");
	REQUIRE(WAIT_UNTIL(hold_watch_stat(service.socket, &stat, &pid) == 0),
	        "no service");
	fixture_need_leases(&service, crew.world->watched[0].path);
	for (enum chaos_role role = ROLE_WATCHER; role < NR_ROLES; role++) {
		static const u32 nr[NR_ROLES] = { CHAOS_WATCHERS, CHAOS_HOLDERS,
			                          CHAOS_SHIMS, 1, 1 };

		for (u32 i = 0; i < nr[role]; i++)
			crew.clients[n++] =
				(struct client){ .role = role, .number = i };
	}
}

static void disturb(void)
{
	u64 seconds = nr_seconds ? nr_seconds : nr_minutes * 60;
	u64 end = begun_ns + seconds * SECOND_NS;
	u64 told_ns = begun_ns + PROGRESS_NS, calm_at = begun_ns + CALM_NS;

	while (!interrupted && host_now_ns() < end) {
		turn();
		act((enum act)random_below(&random_state, NR_ACTS));
		fixture_pause_us(PAUSE_LEAST_US +
		                 random_below(&random_state, PAUSE_MOST_US));
		if (host_now_ns() > calm_at) {
			calm();
			calm_at = host_now_ns() + CALM_NS;
		}
		if (host_now_ns() > told_ns) {
			progress();
			told_ns += PROGRESS_NS;
		}
	}
	let_go_on(true);
}

static bool nothing_left(void)
{
	struct lodic_stat stat;
	int pid;

	crew_collect();
	return hold_watch_stat(crew.world->holders.socket, &stat, &pid) == 0 &&
	       stat.contexts == 0 && stat.pinned == 0 && stat.clients <= 1;
}

static bool services_ended(void)
{
	pid_t found[MOST_SERVICES];

	crew_collect();
	return crew_services(found) == 0;
}

/* Kills all programs. The service must have nothing of theirs, and end in order. */
static void finish(void)
{
	pid_t found[MOST_SERVICES];
	u32 nr;

	for (u32 i = 0; i < NR_CLIENTS; i++) {
		crew.clients[i].doomed = true;
		if (crew.clients[i].pid)
			kill(crew.clients[i].pid, SIGKILL);
	}
	if (!interrupted) {
		if (!WAIT_UNTIL(nothing_left()))
			crew_fail("kept", "contexts, pins or connections of the dead",
			          0);
		COMMAND("stop");
		if (!WAIT_UNTIL(services_ended()))
			crew_fail("lives on", "a service that should end", 0);
	}
	nr = crew_services(found);
	for (u32 i = 0; i < nr; i++) {
		if (!interrupted)
			crew_show(found[i]);
		kill(found[i], SIGKILL);
	}
	(void)WAIT_UNTIL(services_ended());
}

static void show_log(void)
{
	FILE *log = fopen(crew.log_path, "re");
	char line[512];

	if (!log)
		return;
	if (fseek(log, -4000, SEEK_END) == 0)
		(void)!fgets(line, sizeof(line), log);
	while (fgets(line, sizeof(line), log))
		printf("    | %s", line);
	fclose(log);
}

static int chaos(const char *lodic)
{
	const struct sigaction act_on = { .sa_handler = on_signal };
	u64 nr_wrong;

	REQUIRE(lodic && realpath(lodic, crew.world->lodic),
	        "--lodic PATH: the program");
	setenv("LODIC_CHAOS_LODIC", crew.world->lodic, 1);
	REQUIRE(readlink("/proc/self/exe", crew.self, sizeof(crew.self) - 1) > 0,
	        "no /proc");
	REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "%s", strerror(errno));
	fixture_path(crew.log_path, "log");
	sigaction(SIGINT, &act_on, NULL);
	sigaction(SIGTERM, &act_on, NULL);
	hold_watch_guard(&crew.world->stopped);
	random_state = random_stream(0);
	begin();
	begun_ns = host_now_ns();
	disturb();
	if (!interrupted)
		calm();
	finish();
	nr_wrong = summary();
	if (crew.failed || nr_wrong)
		show_log();
	return crew.failed || nr_wrong ? 1 : interrupted ? 130 : 0;
}

int main(int argc, char **argv)
{
	const char *lodic = NULL, *path = NULL;
	u64 number = 0, birth = 0;
	const struct fixture_option options[] = {
		{ .name = "--lodic", .text = &lodic },
		{ .name = "--minutes", .number = &nr_minutes },
		{ .name = "--seconds", .number = &nr_seconds },
		{ .name = "--world", .text = &path },
		{ .name = "--number", .number = &number },
		{ .name = "--birth", .number = &birth },
		{ 0 },
	};

	/* Programs start this one as their service. */
	if (argc > 1 && strcmp(argv[1], "serve") == 0) {
		execv(getenv("LODIC_CHAOS_LODIC"), argv);
		return 127;
	}
	holder_begin_program(argc, argv, NULL);
	fixture_begin(argc, argv, options);
	if (path)
		chaos_shim_main(chaos_world_map(path, false), (u32)number, birth);
	fixture_path(crew.world_path, "world");
	crew.world = chaos_world_map(crew.world_path, true);
	return chaos(lodic);
}
