// SPDX-License-Identifier: GPL-2.0
#include "waiter.h"
#include "file.h"
#include "ktap.h"

#include <signal.h>
#include <sys/prctl.h>

pid_t waiter_start(int (*prepare)(void *arg), void *arg)
{
	int pipes[2];
	bool ready;
	pid_t pid;
	char c;

	if (pipe(pipes))
		ktap_bail("pipe");
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		ktap_bail("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (prepare(arg) || write(pipes[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	ready = read(pipes[0], &c, 1) == 1;
	close(pipes[0]);
	if (ready)
		return pid;
	waiter_kill(pid);
	return -1;
}

struct waiter_range {
	int fd;
	size_t bytes;
};

static int waiter_map_range(void *arg)
{
	struct waiter_range *range = arg;

	file_map(range->fd, range->bytes, PROT_READ, MAP_SHARED);
	return 0;
}

pid_t waiter_map(int fd, size_t bytes)
{
	struct waiter_range range = { fd, bytes };
	pid_t pid = waiter_start(waiter_map_range, &range);

	if (pid < 0)
		ktap_bail("a process that maps the file did not start");
	return pid;
}

void waiter_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
