/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How a context gets its seat and gives it back while other requests are under way. A service whose
 * answer is wrong, or whose arena cannot be mapped, gives no seat. Nothing stays after the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/client/attach.h"
#include "lib/client/context.h"
#include "lib/client/seat.h"
#include "tests/support/held.h"

#define TEST_SECONDS 60
#define TURNS 50u

/* Another thread's request, which the service does not come to before it goes on. */
static void ask_a_service_that_is_stopped(struct test_bed *b)
{
	static const struct wire_request request = { .version = WIRE_VERSION,
		                                     .op = WIRE_STAT };

	test_service_freeze(&b->service);
	attach_lock(b->lodic);
	assert_int_equal(attach_ask(b->lodic, &request, -1, channel_ignore, NULL), 0);
	attach_unlock(b->lodic);
}

static bool reseat(struct lodic_context *context)
{
	context_reseat(context);
	return context_is_seated(context);
}

/* Otherwise others could keep it out for ever. */
static void context_reseat_others_ask_it_asks_too(void **state)
{
	struct lodic_context *context;
	struct test_bed b;

	test_bed_make_blocks(&b, (u64)1 << 20, 1);
	assert_int_equal(context_make(b.lodic, &context), 0);
	ask_a_service_that_is_stopped(&b);
	context_reseat(context);
	assert_true(context->asking);
	kill(b.service.pid, SIGCONT);
	assert_true(WAIT_UNTIL(reseat(context)));
	lodic_context_close(context);
	test_bed_free(&b);
	(void)state;
}

static bool unseat(struct lodic_context *context)
{
	bool done;

	attach_lock(context->lodic);
	done = context_unseat(context);
	attach_unlock(context->lodic);
	return done;
}

/* The service must hear of it: it keeps the seat for this process. */
static void context_unseat_others_ask_later(void **state)
{
	struct test_bed b;

	test_bed_make_blocks(&b, (u64)1 << 20, 1);
	ask_a_service_that_is_stopped(&b);
	assert_false(unseat(b.context));
	assert_true(context_is_seated(b.context));
	kill(b.service.pid, SIGCONT);
	assert_true(WAIT_UNTIL(unseat(b.context)));
	assert_false(context_is_seated(b.context));
	assert_int_equal(test_service_stat(b.lodic).contexts, 0);
	test_bed_free(&b);
	(void)state;
}

static void seat_make_wrong_answers_eproto(void **state)
{
	struct wire_reply wire = { 0 };
	struct channel_reply reply = { .wire = &wire };
	struct test_bed b;
	struct seat *seat;

	test_bed_make_blocks(&b, (u64)1 << 20, 1);
	for (u32 wrong = 0; wrong < 4; wrong++) {
		const struct arena *arena = &b.lodic->segment->arena;

		wire.context.quota = arena->nr_entries + (wrong == 2);
		wire.context.place = wrong == 1 ? ARENA_MAX_CONTEXTS : 0;
		wire.context.bytes = arena_context_bytes(arena->nr_entries,
		                                         (u32)wire.context.quota) +
		                     (wrong == 3);
		reply.nr_fds = wrong != 0;
		assert_int_equal(seat_make(b.context, b.lodic->segment, &reply, &seat),
		                 -EPROTO);
	}
	test_bed_free(&b);
	(void)state;
}

static bool spares_fail;

int __real_port_map(void *at, uint64_t bytes, int protection, int flags, int fd,
                    uint64_t offset, void **ret);
int __wrap_port_map(void *at, uint64_t bytes, int protection, int flags, int fd,
                    uint64_t offset, void **ret);

int __wrap_port_map(void *at, uint64_t bytes, int protection, int flags, int fd,
                    uint64_t offset, void **ret)
{
	if (spares_fail && protection == PORT_NONE && flags == PORT_SHARED)
		return -ENOMEM;
	return __real_port_map(at, bytes, protection, flags, fd, offset, ret);
}

/* LV3: without the spare a process could not leave later. */
static void attach_no_spare_mapping_enomem(void **state)
{
	struct lodic *lodic;
	struct test_bed b;

	test_bed_make_blocks(&b, (u64)1 << 20, 1);
	spares_fail = true;
	assert_int_equal(test_service_attach(&b.service, &lodic), -ENOMEM);
	spares_fail = false;
	assert_int_equal(test_service_attach(&b.service, &lodic), 0);
	lodic_detach(lodic);
	test_bed_free(&b);
	(void)state;
}

/* A fork wipes all seats, also the one that a pin of an earlier service keeps. */
static void unpin_of_an_earlier_seat_in_a_child_does_nothing(void **state)
{
	struct lodic_pin pin;
	struct test_bed b;
	pid_t pid;

	test_bed_make_blocks(&b, (u64)1 << 20, 1);
	test_bed_fill(&b);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pin), 0);
	test_bed_succeed(&b);
	test_bed_come_back(&b);
	assert_non_null(b.context->retired);
	pid = fixture_fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		lodic_unpin(b.context, &pin);
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	assert_true(pattern_holds(pin.data, 1, 1, 0, LODIC_BLOCK_BYTES));
	lodic_unpin(b.context, &pin);
	assert_null(b.context->retired);
	test_bed_free(&b);
	(void)state;
}

/* All that the library does for a program, once. */
static void attach_and_detach(const struct test_bed *b)
{
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic_hold *hold;
	struct lodic_pin pin;
	struct lodic *lodic;

	assert_int_equal(test_service_attach(&b->service, &lodic), 0);
	assert_int_equal(lodic_context_open(lodic, &context), 0);
	assert_int_equal(lodic_open(lodic, b->fd, &file), 0);
	assert_int_equal(lodic_prefetch(context, file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(lodic_pin(context, file, 0, &pin), 0);
	lodic_unpin(context, &pin);
	assert_int_equal(lodic_hold(lodic, file, 0, 0, LODIC_WAIT, &hold), 0);
	lodic_release(hold);
	assert_int_equal(lodic_hold(lodic, file, 0, 1, LODIC_WAIT, &hold), 0);
	lodic_release(hold);
	lodic_close(file);
	lodic_context_close(context);
	lodic_detach(lodic);
}

static void detach_nothing_stays(void **state)
{
	u32 descriptors, mappings;
	struct test_bed b;
	size_t bytes;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.hold_bytes = (u64)4 << 20;
	test_bed_make(&b, (u64)1 << 20);
	attach_and_detach(&b);
	descriptors = held_nr_descriptors();
	mappings = held_nr_mappings(NULL);
	bytes = mallinfo2().uordblks;
	for (u32 i = 0; i < TURNS; i++)
		attach_and_detach(&b);
	/* The C library may keep some for later. */
	assert_in_range(mallinfo2().uordblks, 0, bytes + TURNS * 8);
	assert_int_equal(held_nr_descriptors(), descriptors);
	assert_int_equal(held_nr_mappings(NULL), mappings);
	test_bed_free(&b);
	(void)state;
}

static bool texts_fail;

char *__real_port_text(const char *text);
char *__wrap_port_text(const char *text);

char *__wrap_port_text(const char *text)
{
	return texts_fail ? NULL : __real_port_text(text);
}

static void attach_no_memory_for_the_path_enomem(void **state)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = "/nope/cache.sock",
		                               .service = "" };
	struct lodic *lodic;

	texts_fail = true;
	assert_int_equal(lodic_attach(&options, &lodic), -ENOMEM);
	texts_fail = false;
	(void)state;
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, guard_set)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(context_reseat_others_ask_it_asks_too),
		TEST(context_unseat_others_ask_later),
		TEST(seat_make_wrong_answers_eproto),
		TEST(attach_no_spare_mapping_enomem),
		TEST(attach_no_memory_for_the_path_enomem),
		TEST(detach_nothing_stays),
		TEST(unpin_of_an_earlier_seat_in_a_child_does_nothing),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("seat", tests, NULL, NULL);
}
