/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See shortage.h. */
#define _GNU_SOURCE
#include "tests/outside/shortage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK LODIC_BLOCK_BYTES
#define DISK_BYTES "size=256k"

static struct {
	char at[FIXTURE_PATH_BYTES], log[FIXTURE_PATH_BYTES];
	char metrics[FIXTURE_PATH_BYTES], full[FIXTURE_PATH_BYTES];
	struct test_service service; /* `lodic serve`, as its users run it */
} disk;

static _Noreturn void disk_serve(const char *program)
{
	int log = open(disk.log, O_WRONLY | O_CREAT | O_APPEND, 0600);

	REQUIRE(dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0, "%s",
	        strerror(errno));
	execl(program, "lodic", "serve", "--socket", disk.service.socket, "--memory",
	      "2M", "--pressure", "off", "--log-level", "debug", "--metrics",
	      disk.metrics, NULL);
	_exit(1);
}

void shortage_disk_begin(const char *program)
{
	outside_folder(disk.at, "disk");
	outside_mount("tmpfs", disk.at, "tmpfs", 0, DISK_BYTES);
	fixture_path(disk.log, "disk/log");
	fixture_path(disk.metrics, "disk/metrics");
	fixture_path(disk.full, "disk/full");
	test_service_init(&disk.service, "disk-service");
	disk.service.pid = fixture_fork();
	if (disk.service.pid == 0)
		disk_serve(program);
}

static u64 file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (u64)st.st_size : 0;
}

static u64 file_changed_ns(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0
	               ? (u64)st.st_mtim.tv_sec * 1000000000 + (u64)st.st_mtim.tv_nsec
	               : 0;
}

static void disk_fill(void)
{
	static const u8 bytes[BLOCK];
	int fd = fixture_open(disk.full, O_WRONLY | O_CREAT | O_TRUNC);
	ssize_t n;

	while ((n = write(fd, bytes, sizeof(bytes))) > 0)
		;
	REQUIRE(n < 0 && errno == ENOSPC, "%s", strerror(errno));
	close(fd);
}

/* Does the service let a program in? That is a line in its log, if there is room. */
static bool disk_attaches(void)
{
	struct lodic *lodic;

	if (test_service_attach(&disk.service, &lodic) != 0)
		return false;
	lodic_detach(lodic);
	return true;
}

/* One for which there is no room for the number of its process. */
static void disk_starts(int error)
{
	struct test_service other;

	test_service_init(&other, "disk/other");
	REQUIRE(test_service_start(&other) == error, "it does not say %s",
	        strerror(-error));
	if (error)
		REQUIRE(*other.why, "it does not say why");
	else
		REQUIRE(test_service_stop(&other) == 0, "it does not end in order");
}

u64 shortage_disk_full(void)
{
	u64 begun, bytes, took;

	REQUIRE(WAIT_UNTIL_MS(disk_attaches(), SHORTAGE_MS), "no service");
	REQUIRE(WAIT_UNTIL(file_bytes(disk.metrics) > 0), "no metrics");
	disk_fill();
	disk_starts(-ENOSPC);
	REQUIRE(disk_attaches() && disk_attaches(), "it serves nobody");
	REQUIRE(file_bytes(disk.metrics) > 0, "the metrics are lost");
	disk_fill(); /* what that start has let go */
	bytes = file_bytes(disk.log);
	REQUIRE(unlink(disk.full) == 0, "%s", strerror(errno));
	begun = host_now_ns();
	REQUIRE(WAIT_UNTIL_MS(disk_attaches(), SHORTAGE_MS), "it serves nobody");
	took = host_now_ns() - begun;
	/* The log may leave lines out for 10 s, as there were many. */
	REQUIRE(WAIT_UNTIL_MS(disk_attaches() && file_bytes(disk.log) > bytes,
	                      SHORTAGE_MS),
	        "no line comes into the log");
	disk_starts(0);
	return host_now_ns() - took;
}

/* The service writes them every 5 s, so that one look at the end must do. */
void shortage_disk_end(void)
{
	u64 changed = file_changed_ns(disk.metrics);

	if (!disk.service.pid)
		return;
	disk_fill();
	disk_attaches();
	REQUIRE(unlink(disk.full) == 0, "%s", strerror(errno));
	REQUIRE(WAIT_UNTIL_MS(file_changed_ns(disk.metrics) > changed, SHORTAGE_MS),
	        "the metrics stay as they were");
	REQUIRE(test_service_stop(&disk.service) == 0, "it does not end in order");
}
