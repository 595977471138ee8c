/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Where an ordinary user's programs find the service, and what they believe of their
 * environment. The namespace has a /tmp, a /dev/shm and an /etc of its own, in which other
 * users make folders, and root writes /etc/lodic.conf.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/outside/others.h"

#define TEST_SECONDS 60
#define USER 61234
#define TEXT_BYTES 1024
#define COPY_BYTES (1u << 20)
#define PROBE_OK 100 /* the exit status for 0; that for -EPERM is one more */

#define IN_TMP "/tmp/lodic-61234"
#define IN_SHM "/dev/shm/lodic-61234"

static char program[FIXTURE_PATH_BYTES]; /* `lodic`, where the user can run it */
static char home[FIXTURE_PATH_BYTES];

static void become_user(void)
{
	REQUIRE(setgid(USER) == 0 && setuid(USER) == 0, "%s", strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten by setuid() */
	REQUIRE(chdir("/") == 0, "%s", strerror(errno));
}

/* What a program of the user gets. */
struct outcome {
	int err;
	u64 mib;
};

/* Attaches as the user, and ends the service that this has started. */
static struct outcome attach_as_user(const char *variable, u64 cache_bytes)
{
	struct outcome *shared = fixture_shared(sizeof(*shared)), outcome;
	struct lodic_options options = { .bytes = sizeof(options),
		                         .service = program,
		                         .cache_bytes = cache_bytes };
	struct lodic *lodic;
	pid_t pid = fixture_fork();

	if (pid == 0) {
		become_user();
		if (variable)
			putenv((char *)variable);
		shared->err = lodic_attach(&options, &lodic);
		if (!shared->err) {
			shared->mib = test_service_stat(lodic).frames >> (20 - 12);
			fixture_end((pid_t)test_service_stat(lodic).service_pid);
		}
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	outcome = *shared;
	return outcome;
}

/* Runs `lodic` as the user; gives its exit status, and what it prints. */
static int lodic_as_user(const char *arguments, char text[TEXT_BYTES])
{
	char command[TEXT_BYTES];
	int ends[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	snprintf(command, sizeof(command), "%s %s", program, arguments);
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0, "%s", strerror(errno));
	pid = fixture_fork();
	if (pid == 0) {
		become_user();
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	while (n < TEXT_BYTES - 1 &&
	       (got = read(ends[0], text + n, TEXT_BYTES - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(ends[0]);
	status = fixture_wait(pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void text_write(const char *path, const char *text, uid_t uid)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0, "%s: %s", path, strerror(errno));
	REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
	REQUIRE(fchown(fd, uid, uid) == 0, "%s", strerror(errno));
	close(fd);
}

static void folder_make(const char *path, uid_t uid, mode_t mode)
{
	REQUIRE(mkdir(path, 0700) == 0 || errno == EEXIST, "%s: %s", path,
	        strerror(errno));
	REQUIRE(chmod(path, mode) == 0 && chown(path, uid, uid) == 0, "%s: %s", path,
	        strerror(errno));
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void attach_folder_squatted_next_one_used(void **state)
{
	char text[TEXT_BYTES];

	folder_make(IN_TMP, 0, 0755);
	assert_int_equal(attach_as_user(NULL, 0).err, 0);
	assert_true(is_folder(IN_SHM));
	/* Both halves agree, also when the better place has come free. */
	assert_int_equal(lodic_as_user("stat", text), 1);
	assert_non_null(strstr(text, IN_SHM "/cache.sock"));
	assert_int_equal(rmdir(IN_TMP), 0);
	assert_int_equal(attach_as_user(NULL, 0).err, 0);
	assert_false(is_folder(IN_TMP));
	system("rm -r " IN_SHM);
	assert_int_equal(attach_as_user(NULL, 0).err, 0);
	assert_true(is_folder(IN_TMP));
	assert_false(is_folder(IN_SHM));
	system("rm -r " IN_TMP);
	(void)state;
}

static void attach_all_folders_squatted_eacces_names_one(void **state)
{
	char text[TEXT_BYTES];

	folder_make(IN_TMP, 4321, 0700);
	folder_make(IN_SHM, USER, 0755);
	assert_int_equal(attach_as_user(NULL, 0).err, -EACCES);
	assert_int_equal(lodic_as_user("stat", text), 1);
	assert_non_null(strstr(text, IN_TMP " belongs to user 4321"));
	assert_non_null(strstr(text, "LODIC_SOCKET"));
	assert_int_equal(lodic_as_user("serve", text), 1);
	assert_non_null(strstr(text, IN_TMP " belongs to user 4321"));
	/* A way out. */
	assert_int_equal(attach_as_user("LODIC_SOCKET=/tmp/other.sock", 0).err, 0);
	rmdir(IN_TMP);
	rmdir(IN_SHM);
	(void)state;
}

static void attach_each_source_wins_over_the_next(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct outcome got;

	got = attach_as_user(NULL, (u64)5 << 20);
	assert_int_equal(got.mib, 5);
	/* What the last service was told is the least of the five. */
	got = attach_as_user(NULL, 0);
	assert_int_equal(got.mib, 5);
	text_write("/etc/lodic.conf", "memory = 1M\n", 0);
	got = attach_as_user(NULL, 0);
	assert_int_equal(got.mib, 1);
	fixture_path(path, "home/.config/lodic.conf");
	text_write(path, "memory = 2M\n", USER);
	got = attach_as_user(NULL, 0);
	assert_int_equal(got.mib, 2);
	/* HOME says nothing. */
	got = attach_as_user("HOME=/nonexistent", 0);
	assert_int_equal(got.mib, 2);
	got = attach_as_user("LODIC_MEMORY=3M", 0);
	assert_int_equal(got.mib, 3);
	got = attach_as_user("LODIC_MEMORY=3M", (u64)4 << 20);
	assert_int_equal(got.mib, 4);
	unlink(path);
	unlink("/etc/lodic.conf");
	system("rm -r " IN_TMP);
	(void)state;
}

static void attach_mistake_in_a_file_einval_commands_name_it(void **state)
{
	char path[FIXTURE_PATH_BYTES], text[TEXT_BYTES];

	text_write("/etc/lodic.conf", "# ours\nmemori = 1M\n", 0);
	assert_int_equal(attach_as_user(NULL, 0).err, -EINVAL);
	assert_int_equal(lodic_as_user("serve", text), 1);
	assert_string_equal(text,
	                    "lodic: /etc/lodic.conf:2: there is no setting 'memori'\n");
	assert_int_equal(lodic_as_user("stat", text), 1);
	assert_non_null(strstr(text, "/etc/lodic.conf:2:"));
	unlink("/etc/lodic.conf");

	/* Each line is right, and no service can start with them. */
	text_write("/etc/lodic.conf", "policy = kloc\n", 0);
	assert_int_equal(attach_as_user(NULL, 0).err, -EINVAL);
	assert_int_equal(lodic_as_user("stat", text), 1);
	assert_non_null(strstr(text, "none can start: `policy = kloc' (/etc/lodic.conf)"));
	unlink("/etc/lodic.conf");

	/* Another user's file is not believed. */
	fixture_path(path, "home/.config/lodic.conf");
	text_write(path, "memory = 1M\n", 4321);
	assert_int_equal(attach_as_user(NULL, 0).err, -EINVAL);
	assert_int_equal(lodic_as_user("stat", text), 1);
	assert_non_null(strstr(text, path));
	unlink(path);
	(void)state;
}

static void serve_doubled_key_warns_and_so_does_stat(void **state)
{
	const char *warning = "warning: /etc/lodic.conf:3: 'memory' stands in line 1 already";
	char text[TEXT_BYTES];

	text_write("/etc/lodic.conf", "memory = 1M\nidle-exit = 0.05\nmemory = 2M\n", 0);
	assert_int_equal(lodic_as_user("serve", text), 0);
	assert_non_null(strstr(text, warning));
	assert_non_null(strstr(text, "serving 2 MiB"));
	assert_int_equal(lodic_as_user("stat", text), 1);
	assert_non_null(strstr(text, warning));
	unlink("/etc/lodic.conf");
	(void)state;
}

static void file_copy(const char *from, const char *to, mode_t mode)
{
	char *buffer = malloc(COPY_BYTES);
	int in = fixture_open(from, O_RDONLY), out;
	ssize_t n;

	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	REQUIRE(out >= 0 && buffer, "%s: %s", to, strerror(errno));
	while ((n = read(in, buffer, COPY_BYTES)) > 0)
		REQUIRE(write(out, buffer, (size_t)n) == n, "%s: %s", to,
		        strerror(errno));
	REQUIRE(fchmod(out, mode) == 0, "%s", strerror(errno));
	close(in);
	close(out);
	free(buffer);
}

/* Runs a copy of this program as the user; gives what its lodic_attach() returned. */
static int probe_as_user(char *copy)
{
	char *arguments[] = { copy, "--probe", program, NULL };
	pid_t pid = fixture_fork();
	int status;

	if (pid == 0) {
		become_user();
		putenv("LODIC_SOCKET=/tmp/probe.sock");
		execv(copy, arguments);
		_exit(127);
	}
	status = fixture_wait(pid);
	assert_true(WIFEXITED(status));
	return PROBE_OK - WEXITSTATUS(status);
}

/* Ends at once: a leak checker cannot look at a program with more rights. */
static _Noreturn void probe_run(const char *service)
{
	struct lodic_options options = { .bytes = sizeof(options), .service = service };
	struct lodic *lodic;
	int err = lodic_attach(&options, &lodic);

	/* A socket that the program itself names makes no difference. */
	options.socket = "/tmp/probe.sock";
	if (!err)
		fixture_end((pid_t)test_service_stat(lodic).service_pid);
	else if (lodic_attach(&options, &lodic) != err)
		_exit(126);
	_exit(PROBE_OK - err);
}

static void attach_program_with_more_rights_than_its_user_eperm(void **state)
{
	struct vfs_cap_data rights = { .magic_etc = VFS_CAP_REVISION_2 |
		                                    VFS_CAP_FLAGS_EFFECTIVE };
	char folder[FIXTURE_PATH_BYTES], copy[FIXTURE_PATH_BYTES];

	outside_folder(folder, "rights");
	outside_mount("tmpfs", folder, "tmpfs", 0, "mode=755");
	fixture_path(copy, "rights/plain");
	file_copy("/proc/self/exe", copy, 0755);
	assert_int_equal(probe_as_user(copy), 0);

	fixture_path(copy, "rights/setgid");
	file_copy("/proc/self/exe", copy, 0755);
	assert_int_equal(chown(copy, 0, 4321), 0);
	assert_int_equal(chmod(copy, 02755), 0);
	assert_int_equal(probe_as_user(copy), -EPERM);

	fixture_path(copy, "rights/capable");
	file_copy("/proc/self/exe", copy, 0755);
	rights.data[0].permitted = 1u << CAP_NET_RAW;
	assert_int_equal(
		setxattr(copy, "security.capability", &rights, XATTR_CAPS_SZ_2, 0), 0);
	assert_int_equal(probe_as_user(copy), -EPERM);
	(void)state;
}

/* The option's quota has room in the table, although a file wants a small one. */
static void serve_quota_wins_over_a_later_source_s_entries(void **state)
{
	char text[TEXT_BYTES];

	text_write("/etc/lodic.conf", "entries = 16\n", 0);
	assert_int_equal(
		lodic_as_user("serve --daemon --idle-exit 20 -m 64M --holds 0 --quota 32 -s "
	                      "/tmp/quota.sock",
	                      text),
		0);
	assert_int_equal(lodic_as_user("stat --json -s /tmp/quota.sock", text), 0);
	assert_non_null(strstr(text, "\"entries\":32768,"));
	fixture_end((pid_t)atoi(strstr(text, "\"service_pid\":") + 14));
	unlink("/etc/lodic.conf");
	(void)state;
}

static bool stat_says(const char *words)
{
	char text[TEXT_BYTES * 2];

	return lodic_as_user("stat --json -s /tmp/hup.sock", text) == 0 &&
	       strstr(text, words);
}

static u32 log_times(const char *words)
{
	char text[4 * TEXT_BYTES], *at = text;
	int fd = fixture_open("/tmp/hup.log", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	u32 nr = 0;

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	while ((at = strstr(at, words))) {
		at++;
		nr++;
	}
	return nr;
}

static bool log_says(const char *words)
{
	return log_times(words) > 0;
}

/* Two signals that wait at the same time are one, so it sends another. */
static bool hup_log_says(pid_t pid, const char *words)
{
	for (u32 i = 0; i < 20; i++) {
		kill(pid, SIGHUP);
		if (WAIT_UNTIL_MS(log_says(words), 1000))
			return true;
	}
	return false;
}

/* A file has a new size, a setting that wants a new service, and a mistake. */
static void serve_sighup_files_are_read_again(void **state)
{
	char text[TEXT_BYTES];
	pid_t pid;

	text_write("/etc/lodic.conf", "memory = 2M\nkeep = 100\n", 0);
	assert_int_equal(lodic_as_user("serve --daemon --idle-exit 20 -s /tmp/hup.sock "
	                               "2>/tmp/hup.log",
	                               text),
	                 0);
	assert_int_equal(lodic_as_user("stat --json -s /tmp/hup.sock", text), 0);
	assert_non_null(strstr(text, "\"frames\":512,"));
	pid = (pid_t)atoi(strstr(text, "\"service_pid\":") + 14);
	kill(pid, SIGHUP);
	assert_true(WAIT_UNTIL(log_says("says what it said before")));

	text_write("/etc/lodic.conf", "memory = 4M\nkeep = 50\n", 0);
	kill(pid, SIGHUP);
	assert_true(WAIT_UNTIL(stat_says("\"frames\":1024,")));
	assert_true(log_says("`keep' has changed"));
	assert_false(log_says("`memory' has changed"));
	/* The next service reads the same file. */
	assert_int_not_equal(access("/tmp/hup.sock.conf", F_OK), 0);

	text_write("/etc/lodic.conf", "memori = 8M\n", 0);
	assert_true(hup_log_says(pid, "/etc/lodic.conf:1: there is no setting"));
	unlink("/etc/lodic.conf");
	/* What somebody has asked for by hand stands nowhere else. */
	assert_int_equal(lodic_as_user("resize 3M -s /tmp/hup.sock", text), 0);
	assert_true(stat_says("\"frames\":768,"));
	assert_int_equal(system("grep -qx 'memory = 3145728' /tmp/hup.sock.conf"), 0);
	fixture_end(pid);
	(void)state;
}

/* The user's home is on a server, for example, that takes its time. */
static void serve_sighup_file_unanswered_programs_are_served(void **state)
{
	struct test_service service = { .socket = "/tmp/hup.sock" };
	struct fanotify_event_metadata event;
	struct pollfd wait = { .events = POLLIN };
	char text[TEXT_BYTES];
	pid_t pid, other;

	text_write("/etc/lodic.conf", "memory = 2M\n", 0);
	unlink("/tmp/hup.log");
	assert_int_equal(lodic_as_user("serve --daemon --idle-exit 20 -s /tmp/hup.sock "
	                               "2>/tmp/hup.log",
	                               text),
	                 0);
	assert_int_equal(lodic_as_user("stat --json -s /tmp/hup.sock", text), 0);
	pid = (pid_t)atoi(strstr(text, "\"service_pid\":") + 14);
	wait.fd = hang_file("/etc/lodic.conf", FAN_OPEN_PERM);
	kill(pid, SIGHUP);
	assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
	assert_int_equal(read(wait.fd, &event, sizeof(event)), sizeof(event));
	assert_int_equal(event.pid, pid);
	other = fixture_fork();
	if (other == 0) {
		become_user();
		close(raw_connect(&service));
		_exit(0);
	}
	assert_int_equal(fixture_wait(other), 0);
	assert_true(hup_log_says(pid, "still being read"));
	close(event.fd);
	close(wait.fd); /* the kernel lets the open go on */
	/* What was written between the two signals is read, too. */
	assert_true(WAIT_UNTIL(log_times("says what it said before") == 2));
	fixture_end(pid);
	unlink("/etc/lodic.conf");
	(void)state;
}

static void serve_short_lease_time_warns(void **state)
{
	const char *time = "/proc/sys/fs/lease-break-time";
	char path[FIXTURE_PATH_BYTES], text[TEXT_BYTES];
	const char *serve =
		"serve --daemon --idle-exit 20 -s /tmp/hup.sock 2>/tmp/hup.log";
	const char *seconds[] = { "9\n", "0\n" };

	fixture_path(path, "lease-time");
	for (u32 i = 0; i < 2; i++) {
		text_write(path, seconds[i], 0);
		outside_mount(path, time, NULL, MS_BIND, NULL);
		unlink("/tmp/hup.log");
		assert_int_equal(lodic_as_user(serve, text), 0);
		assert_int_equal(lodic_as_user("stat --json -s /tmp/hup.sock", text),
		                 0);
		fixture_end((pid_t)atoi(strstr(text, "\"service_pid\":") + 14));
		assert_int_equal(umount(time), 0);
		assert_int_equal(log_says("fs.lease-break-time is 9 s"), i == 0);
	}
	(void)state;
}

/* The fixture's folder keeps its path, in a /tmp that is empty otherwise. */
static void tmp_make(void)
{
	char folder[FIXTURE_PATH_BYTES], kept[32];
	int fd;

	fixture_path(folder, "");
	fd = fixture_open(folder, O_PATH);
	outside_mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
	outside_mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
	snprintf(kept, sizeof(kept), "/proc/self/fd/%d", fd);
	if (strncmp(folder, "/tmp/", 5) == 0) {
		REQUIRE(mkdir(folder, 0755) == 0, "%s", strerror(errno));
		outside_mount(kept, folder, NULL, MS_BIND, NULL);
	}
	close(fd);
}

/* An /etc with the user in its password database. */
static void etc_make(void)
{
	char folder[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES], text[TEXT_BYTES];

	fixture_path(home, "home");
	folder_make(home, USER, 0700);
	fixture_path(path, "home/.config");
	folder_make(path, USER, 0700);
	outside_folder(folder, "etc");
	/* The loader's list of libraries. */
	snprintf(text, sizeof(text), "cp /etc/ld.so.* %s 2>/dev/null", folder);
	system(text);
	fixture_path(path, "etc/passwd");
	snprintf(text, sizeof(text),
	         "root:x:0:0::/root:/bin/sh\nlodic-user:x:%d:%d::%s:/bin/sh\n", USER,
	         USER, home);
	text_write(path, text, 0);
	outside_mount(folder, "/etc", NULL, MS_BIND, NULL);
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
		TEST(attach_folder_squatted_next_one_used),
		TEST(attach_all_folders_squatted_eacces_names_one),
		TEST(attach_each_source_wins_over_the_next),
		TEST(attach_mistake_in_a_file_einval_commands_name_it),
		TEST(serve_doubled_key_warns_and_so_does_stat),
		TEST(serve_quota_wins_over_a_later_source_s_entries),
		TEST(serve_sighup_files_are_read_again),
		TEST(serve_sighup_file_unanswered_programs_are_served),
		TEST(serve_short_lease_time_warns),
		TEST(attach_program_with_more_rights_than_its_user_eperm),
	};
	const char *build = getenv("LODIC_BUILD");
	char path[4096];
	int status;
	pid_t pid;

	if (argc == 3 && strcmp(argv[1], "--probe") == 0)
		probe_run(argv[2]);
	outside_begin(argc, argv);
	if (!build || !*build)
		fixture_skip("LODIC_BUILD does not say where the program is");
	unsetenv("LODIC_SOCKET");
	unsetenv("LODIC_MEMORY");
	snprintf(path, sizeof(path), "%s/lodic", build);
	fixture_path(program, "lodic");
	file_copy(path, program, 0755);
	/* The fixture removes its folder in a namespace that still has the old /tmp. */
	pid = fixture_fork();
	if (pid == 0) {
		REQUIRE(unshare(CLONE_NEWNS) == 0, "%s", strerror(errno));
		tmp_make();
		etc_make();
		_exit(cmocka_run_group_tests_name("settings", tests, NULL, NULL));
	}
	REQUIRE(waitpid(pid, &status, 0) == pid, "%s", strerror(errno));
	return status != 0;
}
