/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lib/service/file/proof.c: which file systems prove by themselves that a file does not change.
 * The test says what kind of file system a file of its own lies in. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/port/inode.h"
#include "lib/reason.h"
#include "lib/service/file/proof.h"
#include "tests/support/cache_fixture.h"

static enum port_system system_now;
static bool verity;

/* Each time another file system, so that nobody remembers what it is. */
int __real_port_place(int fd, struct port_place *ret);
int __wrap_port_place(int fd, struct port_place *ret);
int __wrap_port_place(int fd, struct port_place *ret)
{
	static u64 dev = 1u << 20;
	int err = __real_port_place(fd, ret);

	ret->dev = dev++;
	return err;
}

int __wrap_port_system(int fd, enum port_system *ret);
int __wrap_port_system(int fd, enum port_system *ret)
{
	(void)fd;
	*ret = system_now;
	return 0;
}

bool __wrap_port_has_verity(int fd);
bool __wrap_port_has_verity(int fd)
{
	(void)fd;
	return verity;
}

static void look(enum port_system system, bool promised, struct passed_file *ret)
{
	char path[FIXTURE_PATH_BYTES];
	const char *const globs[] = { path, NULL };
	struct service_options options = { .keeping.immutable = promised ? globs : NULL };
	int fd;

	system_now = system;
	pattern_file_make(path, "proof", 1, 1, LODIC_BLOCK_BYTES);
	fd = fixture_open(path, O_RDONLY);
	proof_look(&options, &fd, ret);
	if (fd >= 0)
		close(fd);
	if (ret->fd >= 0)
		close(ret->fd);
	unlink(path);
}

static void format_without_writes_is_a_proof(void **state)
{
	static const enum port_system formats[] = { PORT_SYSTEM_SQUASHFS, PORT_SYSTEM_EROFS,
		                                    PORT_SYSTEM_ISO, PORT_SYSTEM_CRAMFS };
	struct passed_file p;

	(void)state;
	for (u32 i = 0; i < 4; i++) {
		look(formats[i], false, &p);
		assert_int_equal(p.error, 0);
		assert_int_equal(p.other, PROOF_FORMAT);
		assert_true(p.local);
		assert_false(p.may_lease);
	}
}

static void kept_lease_is_the_only_proof(void **state)
{
	static const enum port_system keep[] = { PORT_SYSTEM_EXT, PORT_SYSTEM_XFS,
		                                 PORT_SYSTEM_BTRFS, PORT_SYSTEM_F2FS };
	struct passed_file p;

	(void)state;
	for (u32 i = 0; i < 4; i++) {
		look(keep[i], false, &p);
		assert_int_equal(p.error, 0);
		assert_int_equal(p.other, PROOF_NONE);
		assert_true(p.local);
		assert_true(p.may_lease);
	}
}

static void verity_needs_a_local_system(void **state)
{
	struct passed_file p;

	(void)state;
	verity = true;
	look(PORT_SYSTEM_EXT, false, &p);
	assert_int_equal(p.other, PROOF_VERITY);
	assert_false(p.may_lease);
	look(PORT_SYSTEM_OTHER, true, &p);
	assert_int_equal(p.error, 0);
	assert_int_equal(p.other, PROOF_PROMISE);
	verity = false;
}

static void others_need_a_promise(void **state)
{
	struct passed_file p;

	(void)state;
	look(PORT_SYSTEM_OTHER, false, &p);
	assert_int_equal(p.error, reason_encode(LODIC_REASON_FILE_SYSTEM));
	look(PORT_SYSTEM_TMPFS, false, &p);
	assert_int_equal(p.error, -EMEDIUMTYPE);
	look(PORT_SYSTEM_OTHER, true, &p);
	assert_int_equal(p.error, 0);
	assert_int_equal(p.other, PROOF_PROMISE);
	assert_false(p.local);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(format_without_writes_is_a_proof),
		cmocka_unit_test(kept_lease_is_the_only_proof),
		cmocka_unit_test(verity_needs_a_local_system),
		cmocka_unit_test(others_need_a_promise),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
