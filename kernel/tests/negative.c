// SPDX-License-Identifier: GPL-2.0
/*
 * A negative control: switches a wrong order of LODIC's protocol on, runs the directed test
 * that is made for it, and passes when the error is seen: in the data, in the counters, in
 * pages that stay, or in the kernel's log. It shows that the races would notice; a race that
 * passes with the bug in shows nothing without it.
 *
 *     negative MUTANT PROGRAM CASE [seconds]
 *
 * The test must pass without the wrong order first. It
 * breaks the kernel: nothing can be run after it in the same boot. It is one process
 * that stays in memory and starts nothing while it watches.
 */
#include "lib.h"

#include <signal.h>

#define BROKEN "/tmp/lodic-broken"

static char evidence[300];
static u64 started_ns;

static u32 seconds_since(u64 then)
{
	return (now_ns() - then) / 1000000000ull;
}

/* One line of the race's KTAP. Keeps the first that says what is wrong. */
static void race_line(const char *line)
{
	printf("# race: %s\n", line);
	if (!evidence[0] && !strncmp(line, "not ok", 6))
		snprintf(evidence, sizeof(evidence), "%.250s", line);
}

/* What the race has printed so far; the pipe does not block. */
static void race_output(int fd)
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
			race_line(text);
			have -= end - text;
			memmove(text, end, have + 1);
		}
		if (have == sizeof(text) - 1)
			have = 0;
	}
}

static pid_t race_start(const char *program, const char *race, u32 round, int *ret_fd)
{
	static const char *const windows[] = { "50", "200", "100", "400" };
	char seed[16];
	int pipes[2];
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		bail("pipe");
	fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)opt.seed + round);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		bail("fork");
	if (!pid) {
		/* Both: stuck in the kernel, it would keep our reader of stderr waiting. */
		dup2(pipes[1], 1);
		dup2(pipes[1], 2);
		execl(program, program, "-s", race, "-t", "5", "-w", windows[round % 4],
		      "-r", seed, NULL);
		_exit(127);
	}
	close(pipes[1]);
	*ret_fd = pipes[0];
	return pid;
}

/*
 * Watches one run of the test until it ends, something is seen, or time is up. Whatever is
 * seen is in evidence. *ret_ended: it has ended, and passed unless evidence says otherwise.
 */
static void watch(pid_t pid, int fd, int klog, u32 seconds, bool *ret_ended)
{
	char line[200] = "";
	int status = 0;

	*ret_ended = false;
	while (seconds_since(started_ns) < seconds && !evidence[0]) {
		if (klog_look(klog, line, sizeof(line))) {
			snprintf(evidence, sizeof(evidence), "kernel log: %s", line);
			return;
		}
		race_output(fd);
		if (waitpid(pid, &status, WNOHANG) == pid) {
			race_output(fd);
			*ret_ended = true;
			if (WIFEXITED(status) && WEXITSTATUS(status) > 1)
				bail("the test cannot run: status %d",
				     WEXITSTATUS(status));
			if (!evidence[0] && status)
				snprintf(evidence, sizeof(evidence),
				         "test: status 0x%x", status);
			return;
		}
		sleep_ms(50);
	}
}

/* Runs the test again and again, until it is seen that something is wrong. */
static u32 run(char **argv, int klog, u32 times, u32 seconds)
{
	u32 round;
	bool ended = true;
	int fd;

	started_ns = now_ns();
	for (round = 0; round < times && ended && !evidence[0]; round++) {
		pid_t pid = race_start(argv[2], argv[3], round, &fd);

		watch(pid, fd, klog, seconds, &ended);
		if (!ended)
			kill(pid, SIGKILL);
		close(fd);
	}
	return round;
}

/* One fresh copy of each page that is needed, before memory cannot be trusted any more. */
static void stay_in_memory(void)
{
	mlockall(MCL_CURRENT | MCL_FUTURE);
	write_text("/proc/sys/kernel/panic_on_oops", "0");
	write_text("/proc/sys/kernel/panic_on_warn", "0");
}

static int mutant_on(const char *name)
{
	int err = write_text(DEBUG_MUTANT, name);

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
	if (!lodic_setup()) {
		ktap_skip(name, "no LODIC");
		return 4;
	}
	klog = klog_open();
	run(argv, klog, 1, seconds);
	if (evidence[0]) {
		fail("it fails without %s as well: %s", argv[1], evidence);
		ktap_result(name);
		return ktap_end();
	}
	if (mutant_on(argv[1]))
		return 4;
	close(open(BROKEN, O_WRONLY | O_CREAT, 0644));
	stay_in_memory();
	rounds = run(argv, klog, UINT32_MAX, seconds);
	if (evidence[0])
		diag("caught after %u s, run %u: %s", seconds_since(started_ns), rounds,
		     evidence);
	else
		fail("not caught in %u s, %u runs", seconds, rounds);
	ktap_result(name);
	return ktap_end();
}
