// SPDX-License-Identifier: GPL-2.0
/*
 * A negative control: it breaks a rule of LODIC's protocol on purpose and runs the directed
 * test that is made for that rule. It passes when the error is seen: in the data, in the
 * counters, in pages that stay, or in the kernel's log. So it shows that the directed test
 * would notice such a bug.
 *
 *     negative MUTANT PROGRAM CASE [seconds]
 *
 * MUTANT is one of LODIC's, one of PAYGO's after "paygo/", or one of KLOC's after "kloc/". PROGRAM
 * is the path of another test. CASE must pass first, with no rule broken. After that the control
 * breaks the kernel, and nothing else may run in the same boot. While it watches it stays in
 * memory and uses nothing that it has not used before.
 */
#include "kloc.h"
#include "paygo.h"
#include "test.h"

#include <signal.h>

#define BROKEN "/tmp/lodic-broken"

static char evidence[300];
static bool broken; /* the kernel, by now */
static u64 started_ns;

/* Keeps the first that says what is wrong. A broken kernel may stop at any time, so this says at
 * once that it was caught: tool/report.py believes it. */
static void see(const char *what, const char *line)
{
	if (evidence[0])
		return;
	snprintf(evidence, sizeof(evidence), "%s%.250s", what, line);
	if (broken) {
		printf("# caught: %s\n", evidence);
		fflush(stdout);
	}
}

static u32 seconds_since(u64 then)
{
	return (clock_now_ns() - then) / 1000000000ull;
}

/* One line of the test's KTAP. Wrong data count at once: the kernel may hang before "not ok". */
static void test_line(const char *line)
{
	printf("# test: %s\n", line);
	if (!strncmp(line, "not ok", 6) || strstr(line, ", not 0x"))
		see("", line);
}

/* What the test has printed so far; the pipe does not block. */
static void test_output(int fd)
{
	static char text[4096];
	static size_t have;
	ssize_t n;
	char *end;

	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		have += n;
		text[have] = 0;
		while ((end = strchr(text, '\n'))) {
			*end++ = 0;
			test_line(text);
			have -= end - text;
			memmove(text, end, have + 1);
		}
		if (have == sizeof(text) - 1)
			have = 0;
	}
}

static pid_t test_start(const char *program, const char *subtest, u32 round,
                        int *ret_fd)
{
	static const char *const windows[] = { "50", "200", "100", "400" };
	char seed[16];
	int pipes[2];
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		ktap_bail("pipe");
	fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)opt.seed + round);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		ktap_bail("fork");
	if (!pid) {
		/* stderr too: a test that hangs would keep the reader of our stderr waiting. */
		dup2(pipes[1], 1);
		dup2(pipes[1], 2);
		execl(program, program, "-s", subtest, "-t", "5", "-w",
		      windows[round % 4], "-r", seed, NULL);
		_exit(127);
	}
	close(pipes[1]);
	*ret_fd = pipes[0];
	return pid;
}

/*
 * Watches one run of the test until it ends, something is seen, or time is up. What it has
 * seen is in evidence. *ret_ended: the test has ended, and passed if evidence is empty.
 */
static void watch(pid_t pid, int fd, int klog, u32 seconds, bool *ret_ended)
{
	char line[200] = "";
	int status = 0;

	*ret_ended = false;
	while (seconds_since(started_ns) < seconds && !evidence[0]) {
		if (klog_look(klog, line, sizeof(line))) {
			see("kernel log: ", line);
			return;
		}
		test_output(fd);
		if (waitpid(pid, &status, WNOHANG) == pid) {
			test_output(fd);
			*ret_ended = true;
			if (WIFEXITED(status) && WEXITSTATUS(status) > 1)
				ktap_bail("the test cannot run: status %d",
				          WEXITSTATUS(status));
			snprintf(line, sizeof(line), "0x%x", status);
			if (status)
				see("test: status ", line);
			return;
		}
		clock_sleep_ms(50);
	}
}

/* Runs the test over and over, until something is seen. Returns how many times. */
static u32 run(char **argv, int klog, u32 times, u32 seconds)
{
	u32 round;
	bool ended = true;
	int fd;

	started_ns = clock_now_ns();
	for (round = 0; round < times && ended && !evidence[0]; round++) {
		pid_t pid = test_start(argv[2], argv[3], round, &fd);

		watch(pid, fd, klog, seconds, &ended);
		if (!ended)
			kill(pid, SIGKILL);
		close(fd);
	}
	return round;
}

/* Gets all pages that we need before memory cannot be trusted any more. */
static void stay_in_memory(void)
{
	mlockall(MCL_CURRENT | MCL_FUTURE);
	text_write("/proc/sys/kernel/panic_on_oops", "0");
	text_write("/proc/sys/kernel/panic_on_warn", "0");
}

/* Whose mutants begin with what, who says whether it is on, and where a name is written. */
static const struct {
	const char *prefix, *file;
	bool (*is_on)(void);
} families[] = {
	{ "paygo/", PAYGO_MUTANT, paygo_on },
	{ "kloc/", KLOC_MUTANT, kloc_there },
	{ "", DEBUG_MUTANT, switches_on },
};

static u32 family_of(const char *name)
{
	u32 i = 0;

	while (strncmp(name, families[i].prefix, strlen(families[i].prefix)))
		i++;
	return i;
}

static int mutant_on(const char *name)
{
	u32 i = family_of(name);
	int err = text_write(families[i].file, name + strlen(families[i].prefix));

	if (err)
		printf("ok 1 %s # SKIP this kernel has no such switch (%s)\n", name,
		       strerror(-err));
	return err;
}

int main(int argc, char **argv)
{
	u32 seconds = argc > 4 ? atoi(argv[4]) : 60, rounds;
	char name[64];
	int klog;

	if (argc < 4) {
		fprintf(stderr, "usage: negative MUTANT PROGRAM CASE [seconds]\n");
		return 2;
	}
	opt.seed = 1;
	opt.seconds = seconds;
	snprintf(name, sizeof(name), "%s-is-caught-by-%s", argv[1], argv[3]);
	ktap_plan(1);
	if (!families[family_of(argv[1])].is_on()) {
		ktap_skip(name, "this kernel does not have it on");
		return KTAP_SKIPPED;
	}
	klog = klog_open();
	run(argv, klog, 1, seconds);
	if (evidence[0]) {
		ktap_fail("it fails without %s as well: %s", argv[1], evidence);
		ktap_result(name);
		return ktap_end();
	}
	if (mutant_on(argv[1]))
		return KTAP_SKIPPED;
	broken = true;
	close(open(BROKEN, O_WRONLY | O_CREAT, 0644));
	stay_in_memory();
	rounds = run(argv, klog, UINT32_MAX, seconds);
	if (evidence[0])
		ktap_diag("caught after %u s, run %u: %s", seconds_since(started_ns),
		          rounds, evidence);
	else
		ktap_fail("not caught in %u s, %u runs", seconds, rounds);
	ktap_result(name);
	return ktap_end();
}
