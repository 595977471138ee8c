/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: holder.h. */
#define _GNU_SOURCE
#include "tests/support/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_HOLDS 5u
#define MIB ((u64)1 << 20)
/* Longer than all holders may be dead at a checkpoint, on a loaded machine. */
#define IDLE_MS 20000u
#define SMALL_BYTES (MIB / 2)
#define SERVICE_REPORT 3 /* where the service tells how it fares */
#define AFTER_EXEC "--after-exec"
/* Of so many steps one is a fork, and one a detachment. */
#define STEPS 50u
/* One holder in so many calls exec(), after so many steps at most. */
#define EXECS_ONE_IN 8u
#define EXEC_STEPS 15u

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

const char *const holder_stage_names[NR_STAGES] = { "resting", "asking", "waiting",
	                                            "holding" };

/* ---- the service: what lodic_attach() starts ---- */

static int report_to = -1;
static char log_path[FIXTURE_PATH_BYTES + 8];

static void service_log(char letter)
{
	int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, &letter, 1) != 1)
		_exit(1);
	close(fd);
}

static void service_says(int value)
{
	/* The holder that has started it may be dead by now. */
	(void)!write(report_to, &value, sizeof(value));
	close(report_to);
}

static void service_ready(void *arg)
{
	(void)arg;
	service_log('s');
	service_says(0);
}

/* lodic serve --report-fd N --socket PATH ... */
static _Noreturn void service_main(char **argv, struct service_options *options)
{
	const char *why = NULL;
	int err;

	setsid();
	/* As `lodic serve`, it keeps nothing of who has started it. */
	report_to = dup2(atoi(argv[3]), SERVICE_REPORT);
	close_range(SERVICE_REPORT + 1, ~0u, 0);
	snprintf(log_path, sizeof(log_path), "%s.log", argv[5]);
	options->place.socket = argv[5];
	options->place.idle_exit_ms = IDLE_MS;
	err = service_run(options, service_ready, NULL, &why);
	if (err)
		service_says(-err);
	else
		service_log(__lsan_do_recoverable_leak_check &&
		                            __lsan_do_recoverable_leak_check()
		                    ? 'L'
		                    : 'e');
	_exit(err != 0);
}

void holder_begin_program(int argc, char **argv, struct service_options *options)
{
	if (argc == 2 && strcmp(argv[1], AFTER_EXEC) == 0)
		for (;;)
			pause();
	if (argc > 5 && strcmp(argv[1], "serve") == 0)
		service_main(argv, options);
}

u64 holder_log_count(const struct holder_world *world, char letter)
{
	char path[FIXTURE_PATH_BYTES + 8];
	u64 nr = 0;
	FILE *file;
	int c;

	snprintf(path, sizeof(path), "%s.log", world->socket);
	file = fopen(path, "re");
	REQUIRE(file, "%s: %s", path, strerror(errno));
	while ((c = fgetc(file)) != EOF)
		nr += c == letter;
	fclose(file);
	return nr;
}

/* ---- holders ---- */

struct held {
	struct lodic_hold *hold; /* NULL: none */
	u32 file;
	u64 offset, floor, generation; /* generation 0: not looked at yet */
	bool to_end;
};

struct holder {
	struct holder_world *world;
	struct holder_life *life;
	u64 random;
	struct lodic *lodic;
	struct lodic_file *files[HOLDER_FILES]; /* NULL: not open */
	u64 epochs[HOLDER_FILES];
	struct held held[MOST_HOLDS];
	bool child;
};

static void bump(u64 *p)
{
	host_fetch_add(p, 1);
}

static void holder_stage(struct holder *h, enum holder_stage stage)
{
	if (!h->child)
		host_store_release(&h->life->stage, stage);
}

static void holder_attach(struct holder *h)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = h->world->socket,
		                               .service = "/proc/self/exe",
		                               .idle_exit_ms = IDLE_MS };
	int err;

	/* The service that the call starts, or finds, may be killed at once. Or the sampler has
	 * stopped it, and gets no CPU. */
	while ((err = lodic_attach(&options, &h->lodic)) == -ECONNRESET ||
	       err == -ETIMEDOUT)
		bump(&h->life->progress);
	REQUIRE(err == 0, "not attached: %s", strerror(-err));
}

/* Looks at every byte of the hold. */
static void holder_look(struct holder *h, struct held *held, const void *data,
                        u64 bytes)
{
	const struct gen_file *f = &h->world->files[held->file];
	u64 generation = 0;
	const char *wrong = gen_file_judge(f, data, held->offset, bytes, held->floor,
	                                   held->to_end, &generation);

	if (!wrong && held->generation && held->generation != generation)
		wrong = "another generation than before";
	if (wrong) {
		bump(&h->life->wrong);
		fixture_fail(__FILE__, __LINE__, "held bytes are right",
		             "%s: file %u, %llu bytes from %llu on, floor %llu", wrong,
		             held->file, (unsigned long long)bytes,
		             (unsigned long long)held->offset,
		             (unsigned long long)held->floor);
	}
	held->generation = generation;
	bump(&h->life->looks);
	host_fetch_add(&h->life->words, bytes / 8);
	if (generation < host_load_acquire(&f->floor))
		bump(&h->life->outlived);
}

/* What the calls that hold may say, when writers and kills are about, and there is no room. */
static bool is_named(const struct holder *h, int err)
{
	if (err == -EFBIG)
		return h->world->resized;
	return err == -ENODATA || err == -ENOSPC || err == -ESTALE || err == -EAGAIN ||
	       err == -ECONNRESET || err == -ETIMEDOUT;
}

/* 1: there are bytes to look at. */
static int holder_ready(struct holder *h, struct held *held)
{
	int ready = lodic_hold_ready(held->hold);

	REQUIRE(ready >= 0 || is_named(h, ready), "an unnamed error: %s",
	        strerror(-ready));
	if (ready == 1) {
		holder_look(h, held, lodic_hold_data(held->hold),
		            lodic_hold_bytes(held->hold));
		holder_stage(h, STAGE_HOLDS);
	}
	return ready;
}

static void holder_release(struct holder *h, struct held *held)
{
	if (!held->hold)
		return;
	lodic_release(held->hold);
	*held = (struct held){ 0 };
	host_fetch_add(&h->life->has, -(u64)1);
}

/* A hold that is not ready needs its file, so it ends before. */
static void holder_close(struct holder *h, u32 i)
{
	for (u32 k = 0; k < MOST_HOLDS; k++)
		if (h->held[k].hold && h->held[k].file == i &&
		    lodic_hold_ready(h->held[k].hold) != 1)
			holder_release(h, &h->held[k]);
	if (h->files[i])
		lodic_close(h->files[i]);
	h->files[i] = NULL;
}

/* Opens the file that has the name now, if it is another than before. */
static bool holder_open(struct holder *h, u32 i)
{
	u64 epoch;
	int fd, err;

	if (h->files[i] && h->epochs[i] == host_load_acquire(&h->world->files[i].epoch))
		return true;
	/* Now and then the old file is good enough. */
	if (h->files[i] && random_below(&h->random, 4) == 0)
		return true;
	fd = gen_file_open(&h->world->files[i], &epoch);
	if (fd < 0)
		return h->files[i] != NULL;
	holder_close(h, i);
	err = lodic_open(h->lodic, fd, &h->files[i]);
	close(fd);
	REQUIRE(err == 0, "not opened: %s", strerror(-err));
	h->epochs[i] = epoch;
	return true;
}

static void holder_begin(struct holder *h, struct held *held)
{
	bool wait = random_below(&h->random, 3) > 0;
	bool small = random_below(&h->random, 6) == 0;
	u32 i = (u32)random_below(&h->random, HOLDER_FILES);
	u64 n = small ? 16 + random_below(&h->random, SMALL_BYTES)
	        : random_below(&h->random, 2) ? 0
	                                      : MIB + random_below(&h->random, MIB);
	int err;

	if (!holder_open(h, i))
		return;
	held->file = i;
	held->offset =
		random_below(&h->random, 2) ? 0 : random_below(&h->random, MIB / 8);
	held->to_end = n == 0;
	held->generation = 0;
	bump(&h->life->began);
	holder_stage(h, wait ? STAGE_WAITS : STAGE_ASKS);
	held->floor = gen_file_floor(&h->world->files[i], h->epochs[i]);
	err = lodic_hold(h->lodic, h->files[i], (off_t)held->offset, n,
	                 wait ? LODIC_WAIT : 0, &held->hold);
	holder_stage(h, STAGE_REST);
	if (err) {
		REQUIRE(is_named(h, err), "an unnamed error: %s", strerror(-err));
		bump(&h->life->refused);
		*held = (struct held){ 0 };
		return;
	}
	host_fetch_add(&h->life->has, 1);
	REQUIRE(!wait || lodic_hold_ready(held->hold) == 1, "waited, and not ready");
	if (holder_ready(h, held) == 1)
		bump(&h->life->ready);
	else
		holder_stage(h, STAGE_ASKS);
}

/* Looks at a hold, or waits for it, or gives it up. */
static void holder_go_on(struct holder *h, struct held *held)
{
	struct pollfd event = { .events = POLLIN };
	int ready = holder_ready(h, held);

	if (ready == 1)
		return;
	if (ready < 0 || random_below(&h->random, 4) == 0) {
		bump(&h->life->given_up);
		holder_release(h, held);
		return;
	}
	event.fd = lodic_hold_event(held->hold);
	if (event.fd >= 0)
		poll(&event, 1, 10);
	if (holder_ready(h, held) == 1)
		bump(&h->life->ready);
}

/* A child has what its parent has, and releases its own. */
static void holder_fork(struct holder *h)
{
	bool stays = random_below(&h->random, 2);
	pid_t pid = stays ? fork() : fixture_fork();

	REQUIRE(pid >= 0, "%s", strerror(errno));
	if (pid == 0) {
		h->child = true;
		for (u32 i = 0; i < MOST_HOLDS; i++) {
			struct held *held = &h->held[i];

			if (held->hold && lodic_hold_data(held->hold))
				holder_look(h, held, lodic_hold_data(held->hold),
				            lodic_hold_bytes(held->hold));
			if (i % 2)
				lodic_release(held->hold);
		}
		_exit(0);
	}
	bump(&h->life->forks);
	if (random_below(&h->random, 2)) {
		int status = fixture_wait(pid);

		REQUIRE(status == 0, "a child: %x", status);
	}
}

/* What a descriptor leads to stands when the hold has been released. */
static void holder_pass_on(struct holder *h, struct held *held)
{
	u64 bytes = lodic_hold_bytes(held->hold);
	off_t at;
	void *map;
	int fd;

	if (bytes == 0)
		return;
	fd = lodic_hold_fd(held->hold, &at);
	REQUIRE(fd >= 0 || fd == -ESTALE || fd == -ECONNRESET || fd == -ETIMEDOUT,
	        "an unnamed error: %s", strerror(-fd));
	if (fd < 0)
		return;
	map = mmap(NULL, (u64)at + bytes, PROT_READ, MAP_SHARED, fd, 0);
	REQUIRE(map != MAP_FAILED, "%s", strerror(errno));
	lodic_release(held->hold);
	held->hold = NULL;
	close(fd);
	holder_look(h, held, (u8 *)map + at, bytes);
	munmap(map, (u64)at + bytes);
	*held = (struct held){ 0 };
	host_fetch_add(&h->life->has, -(u64)1);
	bump(&h->life->descriptors);
}

/* Detaches, keeps what it holds, and attaches anew. */
static void holder_detach(struct holder *h)
{
	for (u32 i = 0; i < HOLDER_FILES; i++)
		holder_close(h, i);
	lodic_detach(h->lodic);
	bump(&h->life->detached);
	holder_attach(h);
}

static void holder_step(struct holder *h)
{
	struct held *held = &h->held[random_below(&h->random, MOST_HOLDS)];
	u64 what = random_below(&h->random, STEPS);

	bump(&h->life->progress);
	if (what == 0) {
		holder_fork(h);
	} else if (what == 1) {
		holder_detach(h);
	} else if (!held->hold) {
		holder_begin(h, held);
	} else if (what < 10) {
		holder_release(h, held);
	} else if (what < 14) {
		holder_pass_on(h, held);
	} else {
		holder_go_on(h, held);
	}
}

void holder_start_service(struct holder_world *world)
{
	struct holder_life life = { 0 };
	struct holder h = { .world = world, .life = &life };

	holder_attach(&h);
	lodic_detach(h.lodic);
}

_Noreturn void holder_run(struct holder_world *world, struct holder_life *life,
                          u64 birth)
{
	static struct holder h;
	u64 execs_at;

	h.world = world;
	h.life = life;
	h.random = random_stream(birth);
	execs_at = random_below(&h.random, EXECS_ONE_IN)
	                   ? ~(u64)0
	                   : random_below(&h.random, EXEC_STEPS);
	holder_attach(&h);
	for (u64 step = 0;; step++) {
		holder_step(&h);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (step < execs_at)
			continue;
		bump(&h.life->execs);
		host_store_release(&h.life->execed, 1);
		execl("/proc/self/exe", "holder", AFTER_EXEC, NULL);
		_exit(1);
	}
}
