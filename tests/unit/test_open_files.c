/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An open and a close cost the service the same, however many files it holds and the client
 * has open. Most cases call pieces of lib/service on files that are only numbers: a promise
 * vouches for them, and they have no descriptors. The last cases count a service's
 * descriptors.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/reason.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/client.h"
#include "lib/service/file/files.h"
#include "lib/service/file/lease.h"
#include "lib/service/file/opens.h"
#include "lib/service/succession/whole.h"
#include "lib/service/succession/wire.h"
#include "lib/service/file/held.h"
#include "lib/service/file/proof.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define MANY_SLOTS (1u << 20)
#define MANY_FILES 100000u
/* 100,000 files lie in 2^20 chains. At random, a chain of 8 has a chance of 1 in 10^7; the
 * files' numbers are the same in each run. */
#define LONGEST_CHAIN 8u

static void opens_follow_what_is_open(void **state)
{
	const u32 nr_slots = 3 * OPENS_PAGE_SLOTS - 5;
	u32 *model = calloc(nr_slots, sizeof(*model));
	struct opens o = { 0 };
	u64 random = random_stream(2);
	u32 nr = 0, slot, id, taken;

	(void)state;
	assert_false(opens_remove(&o, 0, 1));
	assert_int_equal(opens_take(&o, &slot, &id), 0);
	for (u32 round = 0; round < 100000; round++) {
		slot = (u32)random_below(&random, nr_slots);
		if (random_below(&random, 2)) {
			assert_int_equal(opens_add(&o, nr_slots, slot, slot + 1), 0);
			nr += model[slot]++ == 0;
		} else {
			assert_false(opens_remove(&o, slot, slot + 1 + nr_slots));
			assert_int_equal(opens_remove(&o, slot, slot + 1),
			                 model[slot] > 0);
			nr -= model[slot] == 1;
			model[slot] -= model[slot] > 0;
		}
		assert_int_equal(o.nr, nr);
	}
	/* The rest is taken, each entry once, with the number of its opens. */
	while ((taken = opens_take(&o, &slot, &id)) > 0) {
		assert_int_equal(id, slot + 1);
		assert_int_equal(taken, model[slot]);
		model[slot] = 0;
		nr--;
	}
	assert_int_equal(nr, 0);
	for (u32 i = 0; i < o.nr_pages; i++)
		assert_null(o.pages[i]);
	assert_false(opens_remove(&o, UINT64_MAX, 1));
	opens_fini(&o);
	free(model);
}

/* The slot's old file has gone. A close of it must not close the new one. */
static void opens_of_a_new_file_replace_those_of_the_old_one(void **state)
{
	struct opens o = { 0 };
	u32 slot, id;

	(void)state;
	assert_int_equal(opens_add(&o, 4, 2, 3), 0);
	assert_int_equal(opens_add(&o, 4, 2, 3), 0);
	assert_int_equal(opens_add(&o, 4, 2, 7), 0);
	assert_int_equal(o.nr, 1);
	assert_false(opens_remove(&o, 2, 3));
	assert_int_equal(opens_take(&o, &slot, &id), 1);
	assert_int_equal(slot, 2);
	assert_int_equal(id, 7);
	opens_fini(&o);
}

static struct service service;

/* A service that holds files; nothing else of it is there. */
static struct service *service_make(u32 nr_files)
{
	struct service *s = &service;

	memset(s, 0, sizeof(*s));
	service_wire(s);
	s->memory.shape.nr_frames = FRAME_FIRST;
	s->memory.shape.nr_files = nr_files;
	s->memory.arena.files = calloc(nr_files, sizeof(*s->memory.arena.files));
	assert_non_null(s->memory.arena.files);
	assert_int_equal(files_init(&s->files), 0);
	return s;
}

static void service_free(struct service *s)
{
	files_fini(&s->files);
	free(s->memory.arena.files);
}

/* Opens the file that is number i. 0 or -errno. */
static int service_open(struct service *s, u64 i, u32 *ret_slot)
{
	static struct passed_file p;

	p.fd = -1;
	p.dev = i % 3;
	p.ino = i / 3;
	p.size = BLOCK;
	p.other = PROOF_PROMISE;
	return files_open(&s->files, &p, 0, ret_slot);
}

static u32 longest_chain(const struct service *s)
{
	u32 longest = 0;

	for (u32 i = 0; i < s->memory.shape.nr_files; i++) {
		u32 slot = s->files.chains[i], nr = 0;

		for (; slot < s->memory.shape.nr_files;
		     slot = s->files.slots[slot].chain)
			nr++;
		longest = nr > longest ? nr : longest;
	}
	return longest;
}

static void files_open_many_files_each_found_in_a_short_chain(void **state)
{
	struct service *s = service_make(MANY_SLOTS);
	u32 *slots = calloc(MANY_FILES, sizeof(*slots)), slot;

	(void)state;
	for (u32 i = 0; i < MANY_FILES; i++)
		assert_int_equal(service_open(s, i, &slots[i]), 0);
	assert_int_equal(s->files.nr_held, MANY_FILES);
	assert_in_range(longest_chain(s), 1, LONGEST_CHAIN);
	for (u32 i = 0; i < MANY_FILES; i++) {
		assert_int_equal(service_open(s, i, &slot), 0);
		assert_int_equal(slot, slots[i]);
		files_close(&s->files, slot, s->files.slots[slot].id, 2);
	}
	assert_int_equal(s->files.nr_held, MANY_FILES); /* warm */
	for (u32 i = 0; i < MANY_FILES && s->files.nr_held > 0; i++)
		files_spare_descriptors(&s->files);
	assert_int_equal(s->files.nr_held, 0);
	assert_int_equal(longest_chain(s), 0);
	free(slots);
	service_free(s);
}

/* Files come and go in an order of their own, and one slot is in use all the time. */
static void files_open_takes_the_slot_that_was_free_longest(void **state)
{
	enum { NR_SLOTS = 5, NR_ROUNDS = 40 };
	struct service *s = service_make(NR_SLOTS);
	u32 first, slot, last = 0;

	(void)state;
	assert_int_equal(service_open(s, 1000, &first), 0);
	for (u32 i = 0; i < NR_ROUNDS; i++) {
		assert_int_equal(service_open(s, i, &slot), 0);
		assert_int_equal(slot, last % (NR_SLOTS - 1) + 1);
		last = slot;
		files_close(&s->files, slot, s->files.slots[slot].id, 1);
		files_spare_descriptors(&s->files);
	}
	for (slot = 1; slot < NR_SLOTS; slot++)
		assert_int_equal(s->files.slots[slot].next_id,
		                 slot + 1 + NR_SLOTS * (NR_ROUNDS / (NR_SLOTS - 1)));
	/* When all slots are in use none is found, and nothing is lost. */
	for (u32 i = 0; i < NR_SLOTS - 1; i++)
		assert_int_equal(service_open(s, i, &slot), 0);
	assert_int_equal(service_open(s, 99, &slot), reason_encode(LODIC_REASON_FILES));
	files_close(&s->files, first, s->files.slots[first].id, 1);
	assert_int_equal(service_open(s, 99, &slot), 0);
	assert_int_equal(slot, first);
	service_free(s);
}

/* The rest of the table stays warm. */
static void files_open_in_a_full_table_lets_the_oldest_warm_file_go(void **state)
{
	static const u32 sizes[] = { 5, 65536 };
	u32 slot;

	(void)state;
	for (u32 k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		u32 nr = sizes[k];
		struct service *s = service_make(nr);

		for (u32 i = 0; i < nr; i++) {
			assert_int_equal(service_open(s, i, &slot), 0);
			if (i > 0)
				files_close(&s->files, slot, s->files.slots[slot].id,
				            1);
		}
		for (u32 i = 0; i < 3; i++) { /* slot 0's file is open */
			assert_int_equal(service_open(s, nr + i, &slot), 0);
			assert_int_equal(slot, 1 + i);
			assert_int_equal(s->files.nr_held, nr);
			assert_int_equal(s->files.slots[slot + 1].state, FILE_HELD);
			assert_int_equal(s->files.slots[slot + 1].id, slot + 2);
		}
		assert_int_equal(s->files.slots[0].nr_opens, 1);
		service_free(s);
	}
}

/* The table of leases stays right when some go: the last ones take their places. */
static void files_that_go_together_are_all_revoked(void **state)
{
	enum { NR_FILES = 20, GONE = 16 };
	struct service *s = service_make(NR_FILES);
	static struct passed_file p;
	u32 slots[NR_FILES] = { 0 }, ids[NR_FILES];
	const char *why;
	int err = 0;

	(void)state;
	s->memory.arena.header = calloc(1, sizeof(*s->memory.arena.header));
	assert_non_null(s->memory.arena.header);
	assert_int_equal(lease_start(&s->files, &why), 0);
	for (u32 i = 0; i < NR_FILES && !err; i++) {
		char path[FIXTURE_PATH_BYTES];

		pattern_file_make(path, "leased", i, 1, BLOCK);
		p = (struct passed_file){ .fd = fixture_open(path, O_RDONLY),
			                  .ino = i,
			                  .local = true,
			                  .may_lease = true,
			                  .other = PROOF_NONE };
		assert_int_equal(unlink(path), 0);
		err = files_open(&s->files, &p, 0, &slots[i]);
		ids[i] = err ? FILE_NONE : s->files.slots[slots[i]].id;
		s->files.slots[slots[i]].local = false; /* it has no name, and stays */
		if (!err)
			files_close(&s->files, slots[i], ids[i], 1);
	}
	if (!err) { /* else there are no leases here */
		files_spare_descriptors(&s->files);
		assert_int_equal(s->files.nr_held, NR_FILES - GONE);
		for (u32 i = 0; i < NR_FILES; i++)
			assert_int_equal(
				file_proof_holds(&s->memory.arena.files[slots[i]],
			                         ids[i]),
				i >= GONE);
		files_spare_descriptors(&s->files);
		assert_int_equal(s->files.nr_held, 0);
		for (u32 i = 0; i < NR_FILES; i++)
			assert_false(file_proof_holds(&s->memory.arena.files[slots[i]],
			                              ids[i]));
	}
	lease_stop(&s->files);
	free(s->memory.arena.header);
	service_free(s);
}

/* Its pages may go with its descriptor, and nobody may wait for that. */
static void large_file_is_closed_by_a_worker(void **state)
{
	static const u64 sizes[] = { BLOCK, 64 << 20 };
	struct service *s = service_make(4);
	static struct passed_file p;
	u32 slot;

	(void)state;
	assert_int_equal(worker_start(&s->base), 0);
	for (u32 i = 0; i < 2; i++) {
		p = (struct passed_file){ .fd = fixture_open("/dev/null", O_RDONLY),
			                  .ino = i,
			                  .local = true,
			                  .size = sizes[i],
			                  .other = PROOF_PROMISE };
		assert_int_equal(files_open(&s->files, &p, 0, &slot), 0);
		s->files.slots[slot].local = false; /* it has no link, and stays */
		files_close(&s->files, slot, s->files.slots[slot].id, 1);
		s->files.slots[slot].local = true;
		files_spare_descriptors(&s->files);
		assert_int_equal(s->files.nr_held, 0);
		assert_int_equal(worker_nr_closing(&s->base), i);
	}
	worker_stop(&s->base);
	service_free(s);
}

/* Its server may be dead, and the service has to end: the process's end closes it. */
static void end_of_the_service_closes_local_files_alone(void **state)
{
	struct service *s = service_make(2);
	static struct passed_file p;
	unsigned int mode;
	int fds[2];
	u32 slot;

	(void)state;
	for (u32 local = 0; local < 2; local++) {
		p = (struct passed_file){ .fd = fixture_open("/dev/null", O_RDONLY),
			                  .ino = local,
			                  .size = BLOCK,
			                  .other = PROOF_PROMISE };
		assert_int_equal(files_open(&s->files, &p, 0, &slot), 0);
		s->files.slots[slot].local = local;
		fds[local] = s->files.slots[slot].fd;
	}
	service_free(s);
	assert_int_equal(port_mode(fds[0], &mode), 0);
	assert_int_equal(port_mode(fds[1], &mode), -EBADF);
	port_close(fds[0]);
}

static void slot_with_no_id_left_is_used_no_more(void **state)
{
	struct service *s = service_make(2);
	struct look_dropped dropped;
	u32 slot;

	(void)state;
	s->files.slots[0].next_id = UINT32_MAX - 1;
	s->files.slots[1].next_id = UINT32_MAX - 2;
	for (u32 i = 0; i < 2; i++) {
		assert_int_equal(service_open(s, i, &slot), 0);
		assert_int_equal(slot, i);
	}
	files_drop(&s->files, 0, 0, LOOK_ALL, &dropped);
	assert_int_equal(s->files.nr_held, 0);
	assert_int_equal(service_open(s, 2, &slot), 0);
	assert_int_equal(slot, 1);
	files_close(&s->files, slot, s->files.slots[slot].id,
	            1); /* this was its last id */
	assert_int_equal(service_open(s, 3, &slot), reason_encode(LODIC_REASON_FILES));
	service_free(s);
}

static void client_hang_up_with_many_opens_closes_them_in_turns(void **state)
{
	enum { NR_FILES = 1000, MOST = 64 };
	struct service *s = service_make(4 * NR_FILES);
	struct client *c = calloc(1, sizeof(*c));
	u32 slot, turns = 0, left = NR_FILES;
	bool more = true;

	(void)state;
	for (u32 i = 0; i < NR_FILES; i++) {
		assert_int_equal(service_open(s, i, &slot), 0);
		assert_int_equal(opens_add(&c->opens, s->memory.shape.nr_files, slot,
		                           s->files.slots[slot].id),
		                 0);
	}
	c->socket = c->process = -1;
	c->gone = true;
	s->clients.first = c;
	s->clients.nr_silent = 1;
	for (; more; turns++) {
		client_free_gone(&s->clients);
		assert_ptr_equal(s->clients.first, c);
		more = client_close_hung_up(&s->clients);
		assert_in_range(left - c->opens.nr, 1, MOST);
		left = c->opens.nr;
	}
	assert_true(turns >= NR_FILES / MOST);
	assert_int_equal(left, 0);
	for (slot = 0; slot < s->memory.shape.nr_files; slot++)
		assert_int_equal(s->files.slots[slot].nr_opens, 0);
	client_free_gone(&s->clients);
	assert_null(s->clients.first);
	service_free(s);
}

/* Descriptors that the process has open. */
static u32 nr_descriptors(pid_t pid)
{
	char path[64];
	u32 nr = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr - 2; /* . and .. */
}

static struct lodic_file *open_pattern(struct test_bed *b, u32 i, int *ret_fd)
{
	char path[FIXTURE_PATH_BYTES], name[32];
	struct lodic_file *file;

	snprintf(name, sizeof(name), "file%u", i);
	pattern_file_make(path, name, 2 + i, 1, BLOCK);
	*ret_fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b->lodic, *ret_fd, &file), 0);
	return file;
}

static bool reads_pattern(struct test_bed *b, struct lodic_file *file, u32 i)
{
	u8 buffer[BLOCK];

	return lodic_read(b->context, file, buffer, BLOCK, 0) == BLOCK &&
	       pattern_holds(buffer, 2 + i, 1, 0, BLOCK);
}

/* Files that cannot be cached are read from the kernel, and other requests still find a
 * descriptor. When the files are closed, others get their descriptors at the first try. */
static void
descriptors_run_out_enfile_reads_go_on_and_warm_files_make_room(void **state)
{
	enum { NR_FILES = 100, LIMIT = 64, LEFT = 8 };
	static struct lodic_file *files[NR_FILES];
	static int fds[NR_FILES];
	struct lodic_context *context;
	struct rlimit limit;
	u32 cached = 0;
	struct test_bed b;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.keeping.nr_files = 4096;
	b.service.options.keeping.buffered = true;
	test_bed_make(&b, BLOCK);
	fixture_need_leases(&b.service, b.path);
	assert_int_equal(prlimit(b.service.pid, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = LIMIT;
	assert_int_equal(prlimit(b.service.pid, RLIMIT_NOFILE, &limit, NULL), 0);
	for (u32 i = 0; i < NR_FILES; i++) {
		int err;

		files[i] = open_pattern(&b, i, &fds[i]);
		err = lodic_file_cached(files[i]);
		assert_true(err == -ENFILE || (err == 0 && i == cached));
		cached += err == 0;
	}
	assert_in_range(cached, 1, LIMIT);
	for (u32 i = 0; i < NR_FILES; i++)
		assert_true(reads_pattern(&b, files[i], i));
	assert_in_range(nr_descriptors(b.service.pid), cached, LIMIT - LEFT + 1);
	assert_int_equal(lodic_context_open(b.lodic, &context), 0);
	lodic_context_close(context);
	for (u32 i = 0; i < NR_FILES; i++) {
		lodic_close(files[i]);
		close(fds[i]);
	}
	for (u32 i = 0; i < NR_FILES; i++) {
		files[i] = open_pattern(&b, NR_FILES + i, &fds[i]);
		assert_int_equal(lodic_file_cached(files[i]), 0);
		lodic_close(files[i]);
		close(fds[i]);
	}
	test_bed_free(&b);
}

/* A file read with O_DIRECT has a second descriptor for as long as reads are under way, and for a
 * moment afterwards. */
static void file_at_rest_takes_one_descriptor(void **state)
{
	enum { NR_FILES = 20 };
	static struct lodic_file *files[NR_FILES];
	static int fds[NR_FILES];
	struct test_bed b;
	u32 before;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	fixture_need_leases(&b.service, b.path);
	before = nr_descriptors(b.service.pid);
	for (u32 i = 0; i < NR_FILES; i++) {
		files[i] = open_pattern(&b, i, &fds[i]);
		assert_int_equal(lodic_file_cached(files[i]), 0);
		/* The kernel drops what is on disk; the service then reads from there. */
		fsync(fds[i]);
		posix_fadvise(fds[i], 0, 0, POSIX_FADV_DONTNEED);
		assert_int_equal(lodic_prefetch(b.context, files[i], 0, 0, LODIC_WAIT),
		                 0);
		assert_true(reads_pattern(&b, files[i], i));
	}
	/* The context's connection for LODIC_WAIT takes up to two more. */
	assert_true(WAIT_UNTIL(nr_descriptors(b.service.pid) <= before + NR_FILES + 2));
	assert_true(nr_descriptors(b.service.pid) >= NR_FILES);
	assert_true(test_service_stat(b.lodic).cached >= NR_FILES);
	for (u32 i = 0; i < NR_FILES; i++) {
		lodic_close(files[i]);
		close(fds[i]);
	}
	test_bed_free(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_follow_what_is_open),
		cmocka_unit_test(opens_of_a_new_file_replace_those_of_the_old_one),
		cmocka_unit_test(files_open_many_files_each_found_in_a_short_chain),
		cmocka_unit_test(files_open_takes_the_slot_that_was_free_longest),
		cmocka_unit_test(
			files_open_in_a_full_table_lets_the_oldest_warm_file_go),
		cmocka_unit_test(files_that_go_together_are_all_revoked),
		cmocka_unit_test(large_file_is_closed_by_a_worker),
		cmocka_unit_test(end_of_the_service_closes_local_files_alone),
		cmocka_unit_test(slot_with_no_id_left_is_used_no_more),
		cmocka_unit_test(client_hang_up_with_many_opens_closes_them_in_turns),
		cmocka_unit_test(
			descriptors_run_out_enfile_reads_go_on_and_warm_files_make_room),
		cmocka_unit_test(file_at_rest_takes_one_descriptor),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("open files", tests, NULL, NULL);
}
