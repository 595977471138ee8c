/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lodic_attach() starts a service. The program that called it must notice nothing, the
 * service must keep nothing of that program, and it must know what its predecessor knew.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define TEST_SECONDS 60
#define TEXT_BYTES 4096
#define FEW_FILES 200

static char program[TEXT_BYTES];
static volatile sig_atomic_t nr_sigchld;

static int attach_to(const char *socket, const char *service, struct lodic **ret_lodic)
{
	const struct lodic_options options = { .bytes = sizeof(options),
		                               .socket = socket,
		                               .service = service };

	return lodic_attach(&options, ret_lodic);
}

/* The text of a file in /proc/PID, NUL bytes as line ends. */
static void process_text(pid_t pid, const char *name, char text[TEXT_BYTES])
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = fixture_open(path, O_RDONLY);
	n = read(fd, text, TEXT_BYTES - 1);
	REQUIRE(n >= 0, "%s: %s", path, strerror(errno));
	close(fd);
	text[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = '\n';
}

/* The rest of the line that begins with key. */
static void process_line(pid_t pid, const char *name, const char *key,
                         char line[TEXT_BYTES])
{
	char text[TEXT_BYTES], *at;

	process_text(pid, name, text);
	at = strstr(text, key);
	REQUIRE(at, "no %s in %s", key, text);
	at += strlen(key) + strspn(at + strlen(key), " \t");
	at[strcspn(at, "\n")] = '\0';
	strcpy(line, at);
}

static u64 process_mask(pid_t pid, const char *key)
{
	char line[TEXT_BYTES];

	process_line(pid, "status", key, line);
	return strtoull(line, NULL, 16);
}

/* Does the process have what our descriptor fd has open? */
static bool process_has(pid_t pid, int fd)
{
	char folder[64], path[400];
	struct stat ours, theirs;
	struct dirent *entry;
	bool has = false;
	DIR *dir;

	REQUIRE(fstat(fd, &ours) == 0, "%s", strerror(errno));
	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
	dir = opendir(folder);
	REQUIRE(dir, "%s: %s", folder, strerror(errno));
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (stat(path, &theirs) == 0 && theirs.st_dev == ours.st_dev &&
		    theirs.st_ino == ours.st_ino)
			has = true;
	}
	closedir(dir);
	return has;
}

/* What the host has open, none of it close-on-exec. */
struct caller {
	int ends[2], lock, listening;
	char cpus[TEXT_BYTES]; /* that the process may use at first */
	char lock_path[FIXTURE_PATH_BYTES];
};

static void on_sigchld(int number)
{
	(void)number;
	nr_sigchld++;
}

static void caller_open(struct caller *h)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char folder[FIXTURE_PATH_BYTES];

	REQUIRE(pipe(h->ends) == 0, "%s", strerror(errno));
	fixture_path(h->lock_path, "host-lock");
	h->lock = open(h->lock_path, O_RDWR | O_CREAT, 0600);
	REQUIRE(flock(h->lock, LOCK_EX | LOCK_NB) == 0, "%s", strerror(errno));
	fixture_path(address.sun_path, "host-socket");
	h->listening = socket(AF_UNIX, SOCK_STREAM, 0);
	REQUIRE(bind(h->listening, (struct sockaddr *)&address, sizeof(address)) == 0,
	        "%s", strerror(errno));
	REQUIRE(listen(h->listening, 1) == 0, "%s", strerror(errno));
	fixture_path(folder, "host-folder");
	REQUIRE(mkdir(folder, 0700) == 0 && chdir(folder) == 0, "%s", strerror(errno));
}

static void caller_limit(__rlimit_resource_t which, rlim_t most)
{
	struct rlimit limit;

	REQUIRE(getrlimit(which, &limit) == 0, "%s", strerror(errno));
	if (limit.rlim_max > most)
		limit.rlim_cur = most;
	REQUIRE(setrlimit(which, &limit) == 0, "%s", strerror(errno));
}

static void caller_choose(struct caller *h)
{
	struct sigaction action = { .sa_handler = on_sigchld };
	cpu_set_t cpus;
	sigset_t set;
	int cpu;

	memset(&cpus, 0xff, sizeof(cpus));
	REQUIRE(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "%s", strerror(errno));
	process_line(getpid(), "status", "Cpus_allowed_list:", h->cpus);
	cpu = sched_getcpu();
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	REQUIRE(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "%s", strerror(errno));
	sigaction(SIGCHLD, &action, NULL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	umask(0);
	caller_limit(RLIMIT_NOFILE, FEW_FILES);
	caller_limit(RLIMIT_CPU, 1000);
	caller_limit(RLIMIT_FSIZE, 4096);
	REQUIRE(setpriority(PRIO_PROCESS, 0, 5) == 0, "%s", strerror(errno));
	REQUIRE(write(fixture_open("/proc/self/oom_score_adj", O_WRONLY), "500", 3) ==
	                3,
	        "%s", strerror(errno));
	setenv("HOST_SECRET", "1", 1);
}

static void caller_check_limit(pid_t pid, const char *name)
{
	char line[TEXT_BYTES], soft[32] = "", hard[32] = "";

	process_line(pid, "limits", name, line);
	REQUIRE(sscanf(line, "%31s %31s", soft, hard) == 2, "%s", line);
	REQUIRE(strcmp(soft, hard) == 0, "%s: %s", name, line);
}

static void caller_check_service(struct caller *h, pid_t pid)
{
	/* libc keeps signals 32 and 33 for itself; its posix_spawn() ignores them. */
	const u64 chosen =
		(u64)1 << (SIGPIPE - 1) | (u64)1 << (SIGXFSZ - 1) | (u64)3 << 31;
	char text[TEXT_BYTES], path[64];
	u64 ignored;
	ssize_t n;

	REQUIRE(!process_has(pid, h->ends[0]), "it has the pipe");
	REQUIRE(!process_has(pid, h->lock), "it has the lock");
	REQUIRE(!process_has(pid, h->listening), "it has the listening socket");
	REQUIRE(process_has(getpid(), h->lock), "the check itself is wrong");
	snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid);
	n = readlink(path, text, sizeof(text) - 1);
	REQUIRE(n == 1 && text[0] == '/', "its folder is %.*s", (int)n, text);
	REQUIRE(getsid(pid) == pid, "it is in our session");
	process_line(pid, "status", "Cpus_allowed_list:", text);
	REQUIRE(strcmp(text, h->cpus) == 0, "its CPUs are %s, not %s", text, h->cpus);
	process_line(pid, "status", "Umask:", text);
	REQUIRE(strcmp(text, "0077") == 0, "its umask is %s", text);
	ignored = process_mask(pid, "SigIgn:") & ~chosen;
	REQUIRE(ignored == 0, "it ignores signals %llx", (unsigned long long)ignored);
	REQUIRE((process_mask(pid, "SigBlk:") & process_mask(getpid(), "SigBlk:")) == 0,
	        "it blocks our signals");
	caller_check_limit(pid, "Max cpu time");
	caller_check_limit(pid, "Max file size");
	caller_check_limit(pid, "Max open files");
	REQUIRE(geteuid() != 0 || getpriority(PRIO_PROCESS, (id_t)pid) == 0,
	        "it has our nice value");
	process_text(pid, "oom_score_adj", text);
	REQUIRE(geteuid() != 0 || strcmp(text, "0\n") == 0, "its OOM score is %s",
	        text);
	process_text(pid, "environ", text);
	REQUIRE(strcmp(text, "LODIC_MEMORY=2M\n") == 0, "it has our environment: %s",
	        text);
}

/* Nothing of what the host gives up now is kept by the service. */
static void caller_check_given_up(struct caller *h)
{
	char byte;
	int fd;

	close(h->ends[1]);
	fcntl(h->ends[0], F_SETFL, O_NONBLOCK);
	REQUIRE(read(h->ends[0], &byte, 1) == 0, "the pipe does not end");
	close(h->lock);
	fd = fixture_open(h->lock_path, O_RDWR);
	REQUIRE(flock(fd, LOCK_EX | LOCK_NB) == 0, "the file stays locked");
}

static _Noreturn void caller_run(const char *socket)
{
	struct caller h;
	struct lodic *lodic;
	struct lodic_stat stat;
	int err;

	caller_open(&h);
	caller_choose(&h);
	setenv("LODIC_MEMORY", "2M", 1);
	err = attach_to(socket, program, &lodic);
	REQUIRE(err == 0, "%s", strerror(-err));
	stat = test_service_stat(lodic);
	REQUIRE(stat.frames >= 512 && stat.frames <= 513, "LODIC_MEMORY is not used");
	caller_check_service(&h, (pid_t)stat.service_pid);
	caller_check_given_up(&h);
	REQUIRE(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
	        "the service is our child");
	fixture_end((pid_t)stat.service_pid);
	REQUIRE(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
	        "the service was our child");
	REQUIRE(nr_sigchld == 0, "%d SIGCHLD", (int)nr_sigchld);
	lodic_detach(lodic);
	_exit(0);
}

static void attach_host_full_of_things_service_inherits_none(void **state)
{
	char socket[FIXTURE_PATH_BYTES];
	pid_t pid;

	fixture_path(socket, "host.sock");
	pid = fixture_fork();
	if (pid == 0)
		caller_run(socket);
	assert_int_equal(fixture_wait(pid), 0);
	(void)state;
}

/* `lodic serve` by hand, until programs can connect. What it prints goes to the file "log". */
static pid_t serve_by_hand(const char *socket, const char *const *more)
{
	const char *arguments[16] = { "lodic", "serve", "-s", socket };
	char log[FIXTURE_PATH_BYTES];
	struct lodic *lodic;
	struct lodic_stat stat;
	int status, err;
	pid_t pid;

	for (u32 i = 0; more[i]; i++)
		arguments[4 + i] = more[i];
	fixture_path(log, "log");
	pid = fixture_fork();
	if (pid == 0) {
		dup2(fixture_open(log, O_WRONLY | O_CREAT | O_TRUNC), 1);
		dup2(1, 2);
		execv(program, (char **)arguments);
		_exit(1);
	}
	for (;;) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return 0;
		if (attach_to(socket, "", &lodic) == 0) {
			/* A service that is being replaced may hang up. */
			err = lodic_stat(lodic, &stat, sizeof(stat));
			lodic_detach(lodic);
			if (!err && (pid_t)stat.service_pid == pid)
				return pid;
		}
		fixture_pause_us(1000);
	}
}

static void file_text(const char *path, char text[TEXT_BYTES])
{
	FILE *f = fopen(path, "r");

	REQUIRE(f, "%s: %s", path, strerror(errno));
	text[fread(text, 1, TEXT_BYTES - 1, f)] = '\0';
	fclose(f);
}

/* The service by hand is killed, and the next program that attaches starts a successor. */
static void serve_killed_successor_has_its_settings(void **state)
{
	static const char *const more[] = { "-m",     "2M",          "--scheme",
		                            "atomic", "--immutable", "/nonexistent/*",
		                            NULL };
	static const char *const other[] = { "-m", "1M", NULL };
	static const char *const replace[] = { "-m", "1M", "--replace", NULL };
	char socket[FIXTURE_PATH_BYTES], left[FIXTURE_PATH_BYTES],
		log[FIXTURE_PATH_BYTES], text[TEXT_BYTES];
	struct lodic_stat stat;
	struct lodic *lodic;
	pid_t pid, started;

	fixture_path(socket, "left.sock");
	fixture_path(left, "left.sock.conf");
	fixture_path(log, "log");
	pid = serve_by_hand(socket, more);
	assert_true(pid > 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(attach_to(socket, program, &lodic), 0);
	stat = test_service_stat(lodic);
	started = (pid_t)stat.service_pid;
	assert_int_not_equal(started, pid);
	assert_in_range(stat.frames, 512, 513);
	assert_int_equal(stat.scheme, LODIC_ATOMIC);
	/* It hands them on, promises included. */
	file_text(left, text);
	assert_non_null(strstr(text, "immutable = /nonexistent/*\n"));

	/* By hand another one cannot take the socket, and says how it could. */
	assert_int_equal(serve_by_hand(socket, other), 0);
	file_text(log, text);
	assert_non_null(strstr(text, "serves there already; add --replace"));
	pid = serve_by_hand(socket, replace);
	assert_true(pid > 0);
	lodic_detach(lodic);
	assert_int_equal(attach_to(socket, "", &lodic), 0);
	stat = test_service_stat(lodic);
	assert_in_range(stat.frames, 256, 257);
	assert_int_equal(stat.scheme, LODIC_LODIC);
	lodic_detach(lodic);
	/* What it was not told is forgotten, promises first. */
	file_text(left, text);
	assert_non_null(strstr(text, "memory = 1048576\n"));
	assert_null(strstr(text, "scheme"));
	assert_null(strstr(text, "immutable"));
	kill(pid, SIGTERM);
	assert_int_equal(fixture_wait(pid), 0);
	(void)state;
}

/* Neither a file that cannot be written nor one that makes no sense stops a service. */
static void serve_settings_not_left_service_runs_all_the_same(void **state)
{
	static const char *const more[] = { "-m", "1M", NULL };
	char socket[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES],
		log[FIXTURE_PATH_BYTES], text[TEXT_BYTES];
	struct lodic *lodic;
	pid_t pid;
	int fd;

	fixture_path(socket, "odd.sock");
	fixture_path(path, "odd.sock.conf");
	assert_int_equal(mkdir(path, 0700), 0);
	pid = serve_by_hand(socket, more);
	assert_true(pid > 0);
	kill(pid, SIGTERM);
	assert_int_equal(fixture_wait(pid), 0);
	fixture_path(log, "log");
	file_text(log, text);
	assert_non_null(strstr(text, "odd.sock.conf cannot be written"));

	assert_int_equal(rmdir(path), 0);
	fd = fixture_open(path, O_WRONLY | O_CREAT);
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(write(fd, "memory = 2M\nwhat?\n", 18), 18);
	close(fd);
	assert_int_equal(attach_to(socket, program, &lodic), 0);
	assert_in_range(test_service_stat(lodic).frames, 512, 513);
	fixture_end((pid_t)test_service_stat(lodic).service_pid);
	lodic_detach(lodic);
	(void)state;
}

/* The pipe's ends take the numbers of stdin, stdout and stderr. */
static void attach_host_without_stdio_started(void **state)
{
	char socket[FIXTURE_PATH_BYTES];
	struct lodic *lodic;
	pid_t pid;

	fixture_path(socket, "bare.sock");
	for (int first = 0; first < 3; first++) {
		pid = fixture_fork();
		if (pid == 0) {
			for (int fd = first; fd < 3; fd++)
				close(fd);
			int err = attach_to(socket, program, &lodic);

			if (err)
				_exit(-err);
			fixture_end((pid_t)test_service_stat(lodic).service_pid);
			_exit(0);
		}
		assert_int_equal(fixture_wait(pid), 0);
	}
	(void)state;
}

/* A shell that reads what the command prints must not wait for the service's end. */
static void serve_daemon_lets_go_of_terminal_and_pipes(void **state)
{
	char socket[FIXTURE_PATH_BYTES], command[2 * TEXT_BYTES], text[TEXT_BYTES];
	struct lodic *lodic;
	size_t n;
	FILE *f;

	fixture_path(socket, "daemon.sock");
	snprintf(command, sizeof(command),
	         "%s serve --daemon -m 1M --idle-exit 20 -s %s 2>&1", program, socket);
	f = popen(command, "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	if (!strstr(text, "serving 1 MiB at "))
		fail_msg("it says: %s", text);
	assert_int_equal(pclose(f), 0);

	f = popen(command, "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	if (!strstr(text, "serves there already"))
		fail_msg("it says: %s", text);
	assert_int_equal(WEXITSTATUS(pclose(f)), 1);

	assert_int_equal(attach_to(socket, "", &lodic), 0);
	fixture_end((pid_t)test_service_stat(lodic).service_pid);
	lodic_detach(lodic);
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
		TEST(attach_host_full_of_things_service_inherits_none),
		TEST(attach_host_without_stdio_started),
		TEST(serve_killed_successor_has_its_settings),
		TEST(serve_settings_not_left_service_runs_all_the_same),
		TEST(serve_daemon_lets_go_of_terminal_and_pipes),
	};
	const char *build = getenv("LODIC_BUILD");

	fixture_begin(argc, argv, NULL);
	if (!build || !*build)
		fixture_skip("LODIC_BUILD does not say where the program is");
	snprintf(program, sizeof(program), "%s/lodic", build);
	unsetenv("LODIC_SOCKET");
	unsetenv("LODIC_MEMORY");
	return cmocka_run_group_tests_name("start", tests, NULL, NULL);
}
