/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What `lodic doctor` concludes from a program that was recorded: counts, answers of services, and
 * prices of reads. Nothing is measured here, so each figure is the test's own.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/doctor/advice.h"
#include "cli/doctor/forecast.h"
#include "cli/doctor/promise.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* 60000 reads of 4 KiB in 100 ms of CPU time, of one file of 1 MiB that was read again and again.
 * pread takes 800 ns and a served read 100. So 42 ms could be saved: 1.72. */
static struct doctor *recorded(void)
{
	static char *command[] = { "prog", "a file", NULL };
	struct doctor *d = calloc(1, sizeof(*d));
	struct doctor_file *f = calloc(4, sizeof(*f));
	const double ns[DOCTOR_WAYS] = { 800, 800, 100 };

	assert_non_null(d);
	assert_non_null(f);
	*f = (struct doctor_file){ .path = "/root/data",
		                   .dev = 1,
		                   .ino = 1,
		                   .size = MIB,
		                   .blocks = 256,
		                   .asked = true };
	f->counts.reads[RUN_COULD] = f->counts.size_reads[1] = 60000;
	f->counts.bytes[RUN_COULD] = f->counts.size_bytes[1] = 60000 * 4096;
	d->files = f;
	d->nr_files = 1;
	d->counts = f->counts;
	d->io = (struct doctor_io){ .known = true,
		                    .read_bytes = 60000 * 4096,
		                    .reads = 60000 };
	d->nr_programs = d->nr_served = 1;
	d->command = command;
	d->cpu_ns = 100000000;
	d->wall_ns = 200000000;
	d->memory.bytes = 8 * GIB;
	d->cache_setting = 256 * MIB;
	d->price.known = true;
	d->price.noise = 1;
	for (int state = 0; state < DOCTOR_STATES; state++)
		for (int way = 0; way < DOCTOR_WAYS; way++)
			for (unsigned int i = 0; i < DOCTOR_SIZES; i++)
				for (unsigned int r = 0; r < DOCTOR_ROUNDS; r++)
					d->price.ns[state][way][i][r] = ns[way];
	return d;
}

/* A further file of the program. */
static struct doctor_file *add_file(struct doctor *d, const char *path, int refused)
{
	struct doctor_file *f = &d->files[d->nr_files++];

	*f = d->files[0];
	strcpy(f->path, path);
	f->ino = d->nr_files;
	f->refused = refused;
	return f;
}

static void refuse(struct doctor *d, int error)
{
	d->files[0].refused = error;
	doctor_promise_choose(d);
}

static void conclude(struct doctor *d)
{
	doctor_forecast(d);
	doctor_advise(d);
}

static void end(struct doctor *d)
{
	free(d->files);
	free(d);
}

static void expect_steps(const struct doctor *d, const char *const *steps)
{
	unsigned int nr = 0;

	for (; steps[nr]; nr++) {
		assert_true(nr < d->nr_steps);
		assert_string_equal(d->steps[nr], steps[nr]);
	}
	assert_int_equal(d->nr_steps, nr);
}

/* ---- gains, and promises ---- */

static void advise_cached_file_run(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_RUN);
	assert_float_equal(d->gain.expected, 1.72, 0.01);
	expect_steps(d, (const char *[]){ "lodic run -- prog 'a file'", NULL });
	end(d);
}

static void advise_promise_mends_says_the_line(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	refuse(d, -EOPNOTSUPP);
	d->files[0].promised = true; /* a service has said so */
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_PROMISE);
	assert_true(d->gain.expected < DOCTOR_LEAST_GAIN);
	assert_float_equal(d->promised_gain.expected, 1.72, 0.01);
	expect_steps(d, (const char *[]){ "in /etc/lodic.conf: immutable = /root/data",
	                                  "lodic run -- prog 'a file'", NULL });
	end(d);
}

static void advise_promise_does_not_help_nothing(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	refuse(d, -EOPNOTSUPP);
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOTHING);
	end(d);
}

static void advise_service_runs_is_started_anew(void **state)
{
	struct doctor *d = recorded();
	struct doctor_file *f = d->files;

	(void)state;
	d->service = (struct doctor_service){ .found = true,
		                              .pid = 7,
		                              .cache_bytes = 48 * MIB,
		                              .memory_limit = 64 * MIB };
	f->service_asked = true;
	f->service_refused = -EOPNOTSUPP;
	doctor_promise_choose(d); /* the settings have the promise already */
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_PROMISE);
	expect_steps(d, (const char *[]){ "lodic serve --replace --daemon --memory 64M",
	                                  "lodic run -- prog 'a file'", NULL });
	strcpy(d->service.unit, "lodic.service");
	d->service.unit_of_user = true;
	conclude(d);
	assert_string_equal(d->steps[0], "systemctl --user reload lodic.service");
	/* Something else than a promise is missing: a new service would say the same. */
	f->service_refused = -ENFILE;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOTHING);
	end(d);
}

static void advise_service_has_the_promise_run(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	d->service.found = true;
	d->files[0].service_asked = d->files[0].service_promised = true;
	refuse(d, -EOPNOTSUPP); /* for a private one, which has no such option */
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_RUN);
	end(d);
}

static void advise_small_cache_says_the_size(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	d->files[0].blocks = 512 * MIB / SEEN_BLOCK_BYTES;
	d->files[0].size = 512 * MIB;
	conclude(d);
	assert_string_equal(d->steps[0], "lodic run --memory 641M -- prog 'a file'");
	d->service.found = true;
	conclude(d);
	assert_string_equal(d->steps[0], "lodic resize 641M");
	d->memory.bytes = 256 * MIB;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOTHING);
	assert_non_null(strstr(d->why, "more reads wait for the disk"));
	end(d);
}

static void advise_watched_process_needs_a_file_that_is_cached(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	d->pid = 7;
	d->command = NULL;
	memset(&d->counts, 0, sizeof(d->counts));
	memset(&d->files[0].counts, 0, sizeof(d->files[0].counts));
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_RUN);
	expect_steps(d, (const char *[]){ "lodic run -- PROGRAM...", NULL });
	refuse(d, -EOPNOTSUPP);
	d->files[0].promised = true;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_PROMISE);
	end(d);
}

/* ---- which promises ---- */

static void promise_choose_folder_of_several_one_glob(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	add_file(d, "/root/more", -EOPNOTSUPP);
	add_file(d, "/srv/one", -EMEDIUMTYPE);
	refuse(d, -EACCES);
	assert_int_equal(d->promise.nr, 2);
	assert_string_equal(d->promise.globs[0], "/root/*");
	assert_string_equal(d->promise.globs[1], "/srv/one");
	assert_true(d->promise.of_memory);
	end(d);
}

static void promise_choose_file_that_changes_never(void **state)
{
	struct doctor *d = recorded();
	struct doctor_file *f = add_file(d, "/root/log", -EOPNOTSUPP);

	(void)state;
	f->written = true;
	refuse(d, -EOPNOTSUPP);
	assert_int_equal(d->promise.nr, 1);
	assert_string_equal(d->promise.globs[0], "/root/data"); /* and no /root/\* */
	f->written = false;
	f->counts.reads[RUN_WRITABLE] = 1;
	doctor_promise_choose(d);
	assert_int_equal(d->promise.nr, 1);
	assert_string_equal(d->promise.globs[0], "/root/data");
	d->nr_files = 1;
	refuse(d, -ETXTBSY);
	assert_int_equal(d->promise.nr, 0);
	end(d);
}

static void promise_choose_little_read_file_is_not_worth_it(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	add_file(d, "/etc/small", -EOPNOTSUPP)->counts.bytes[RUN_COULD] = 4096;
	refuse(d, -EOPNOTSUPP);
	assert_int_equal(d->promise.nr, 1);
	end(d);
}

static void promise_choose_user_keeps_the_globs_of_the_system(void **state)
{
	static char old[] = "/srv/*";
	struct doctor *d = recorded();

	(void)state;
	d->settings.immutable[0] = old;
	d->settings.from[SETTING_IMMUTABLE] = SETTINGS_SYSTEM;
	d->user = 1000;
	refuse(d, -EOPNOTSUPP);
	assert_string_equal(d->promise.file, "~/.config/lodic.conf");
	assert_int_equal(d->promise.nr, 2);
	assert_int_equal(d->promise.nr_old, 1);
	assert_string_equal(d->promise.globs[0], old);
	d->user = 0;
	refuse(d, -EOPNOTSUPP);
	assert_string_equal(d->promise.file, "/etc/lodic.conf");
	assert_int_equal(d->promise.nr, 1);
	end(d);
}

static void promise_glob_stands_for_itself_alone(void **state)
{
	char glob[PATH_MAX];

	(void)state;
	assert_true(doctor_promise_glob("/a*[b]?\\ c\nd ", glob));
	assert_string_equal(glob, "/a\\*\\[b]\\?\\\\ c?d?");
	assert_false(doctor_promise_glob("inode 3 of device 1", glob));
}

/* ---- evidence ---- */

/* The program has read nothing by pread, and the kernel counted 240 MB. */
static struct doctor *recorded_past(void)
{
	struct doctor *d = recorded();

	d->nr_files = 0;
	memset(&d->counts, 0, sizeof(d->counts));
	return d;
}

static void advise_most_unseen_never_nothing(void **state)
{
	struct doctor *d = recorded_past();

	(void)state;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_UNSEEN);
	assert_string_equal(d->why, "of the 234 MiB that it used, 0.0 % were seen");
	assert_non_null(strstr(d->steps[0], "234 MiB came past the shim"));
	d->marks = SEEN_GO;
	conclude(d);
	assert_non_null(strstr(d->steps[0], "a program in Go"));
	end(d);
}

static void advise_unseen_that_could_gain_nothing_nothing(void **state)
{
	struct doctor *d = recorded_past();

	(void)state;
	/* What the loader reads of true(1). */
	d->io = (struct doctor_io){ .known = true, .read_bytes = 6000, .reads = 10 };
	d->cpu_ns = 1000000;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOTHING);
	/* Much, and next to nothing beside what it computes. */
	d->io = (struct doctor_io){ .known = true, .read_bytes = 4 * MIB, .reads = 64 };
	d->cpu_ns = 1000000000;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOTHING);
	end(d);
}

static void advise_mappings_say_mmap(void **state)
{
	struct doctor *d = recorded_past();

	(void)state;
	d->io.read_bytes = 6000;
	d->io.reads = 10;
	d->maps = (struct doctor_maps){ .pid = 7, .resident_bytes = 20 * MIB };
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_UNSEEN);
	assert_string_equal(d->steps[1], "lodic run --mmap -- prog 'a file'");
	end(d);
}

static void advise_ring_never_nothing(void **state)
{
	struct doctor *d = recorded_past();

	(void)state;
	d->io.read_bytes = 6000;
	d->io.reads = 10;
	d->marks = SEEN_RING;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_UNSEEN);
	assert_non_null(strstr(d->steps[0], "io_uring"));
	/* What gains by its preads gains, whatever else it does. */
	d->nr_files = 1;
	d->counts = d->files[0].counts;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_RUN);
	end(d);
}

static void advise_device_gave_more_than_was_read_never_nothing(void **state)
{
	struct doctor *d = recorded_past();

	(void)state;
	d->io = (struct doctor_io){ .known = true,
		                    .read_bytes = 6000,
		                    .reads = 10,
		                    .device_bytes = 100 * MIB };
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_UNSEEN);
	end(d);
}

static void advise_files_that_nobody_judged_perhaps(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	d->files[0].asked = false;
	d->files[0].gone = true;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_PERHAPS);
	/* Reads of files that have no place in the counts. */
	d->nr_files = 0;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_UNSEEN);
	assert_int_equal(d->unseen.unjudged, 60000 * 4096);
	end(d);
}

static void advise_no_proc_never_nothing(void **state)
{
	struct doctor *d = recorded_past();

	(void)state;
	d->io = (struct doctor_io){ 0 };
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_UNSEEN);
	assert_non_null(strstr(d->why, "/proc/PID/io"));
	d->interrupted = true; /* and so its own count is missing, too */
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOT_KNOWN);
	end(d);
}

static void advise_interrupted_never_nothing(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	d->interrupted = true;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_RUN); /* so far it has gained */
	d->files[0].refused = -ETXTBSY;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOT_KNOWN);
	assert_non_null(strstr(d->why, "interrupted"));
	d->interrupted = false;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOTHING);
	end(d);
}

static void advise_times_that_differ_too_much_not_known(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	for (unsigned int state_of = 0; state_of < DOCTOR_STATES; state_of++)
		for (unsigned int i = 0; i < DOCTOR_SIZES; i++)
			for (unsigned int r = 0; r < DOCTOR_ROUNDS; r += 2)
				d->price.ns[state_of][DOCTOR_SERVED][i][r] = 1500;
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOT_KNOWN);
	assert_non_null(strstr(d->why, "differ too much"));
	end(d);
}

static void advise_not_measured_not_known(void **state)
{
	struct doctor *d = recorded();

	(void)state;
	d->price.known = false;
	strcpy(d->price.why, "a reason");
	conclude(d);
	assert_int_equal(d->advice, DOCTOR_NOT_KNOWN);
	assert_string_equal(d->why, "a reason");
	assert_int_equal(d->nr_steps, 0);
	end(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(advise_cached_file_run),
		cmocka_unit_test(advise_promise_mends_says_the_line),
		cmocka_unit_test(advise_promise_does_not_help_nothing),
		cmocka_unit_test(advise_service_runs_is_started_anew),
		cmocka_unit_test(advise_service_has_the_promise_run),
		cmocka_unit_test(advise_small_cache_says_the_size),
		cmocka_unit_test(advise_watched_process_needs_a_file_that_is_cached),
		cmocka_unit_test(promise_choose_folder_of_several_one_glob),
		cmocka_unit_test(promise_choose_file_that_changes_never),
		cmocka_unit_test(promise_choose_little_read_file_is_not_worth_it),
		cmocka_unit_test(promise_choose_user_keeps_the_globs_of_the_system),
		cmocka_unit_test(promise_glob_stands_for_itself_alone),
		cmocka_unit_test(advise_most_unseen_never_nothing),
		cmocka_unit_test(advise_unseen_that_could_gain_nothing_nothing),
		cmocka_unit_test(advise_mappings_say_mmap),
		cmocka_unit_test(advise_ring_never_nothing),
		cmocka_unit_test(advise_device_gave_more_than_was_read_never_nothing),
		cmocka_unit_test(advise_files_that_nobody_judged_perhaps),
		cmocka_unit_test(advise_no_proc_never_nothing),
		cmocka_unit_test(advise_interrupted_never_nothing),
		cmocka_unit_test(advise_times_that_differ_too_much_not_known),
		cmocka_unit_test(advise_not_measured_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
