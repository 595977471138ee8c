/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: crew.h. */
#define _GNU_SOURCE
#include "tests/chaos/crew.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_ARGUMENTS 16
/* A command that is not done by then hangs. `lodic stop` alone waits for 30 s. */
#define COMMAND_NS (90 * (u64)1000000000)

struct crew crew;

void crew_fail(const char *what, const char *which, int status)
{
	crew.failed++;
	printf("FAILED: %s: %s (status %x)\n", what, which, (unsigned int)status);
	fflush(stdout);
}
/* Ctrl-C is for this program alone, so that it can end the others in order. */
static pid_t child_start(void)
{
	pid_t pid = fixture_fork();

	if (pid == 0) {
		setpgid(0, 0);
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
	}
	return pid;
}

static void output_to(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

	if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		_exit(1);
	close(fd);
}

static _Noreturn void shim_exec(u32 number)
{
	char seed[24], place[24], birth[24];

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)fixture_seed());
	snprintf(place, sizeof(place), "%u", number);
	snprintf(birth, sizeof(birth), "%llu", (unsigned long long)crew.births);
	/* Its seed is told by this program. */
	if (dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1) == 1)
		execl(crew.world->lodic, "lodic", "run", "--socket",
		      crew.world->holders.socket, "--mmap", "--mmap=*",
		      "--mmap-wait=0.1", "--", crew.self, "--seed", seed, "--world",
		      crew.world_path, "--number", place, "--birth", birth,
		      (char *)NULL);
	_exit(127);
}

void crew_client_start(struct client *c)
{
	crew.births++;
	c->doomed = false;
	c->go_on_ns = 0;
	c->pid = child_start();
	if (c->pid > 0)
		return;
	if (c->role == ROLE_SHIM)
		shim_exec(c->number);
	chaos_run(crew.world, c->role, c->number, crew.births);
}

static void client_went(struct client *c, int status)
{
	bool writes = c->role >= ROLE_WRITER;

	c->pid = 0;
	c->go_on_ns = 0;
	if (!c->doomed && !(writes && status == 0 && crew.world->stop))
		crew_fail("a program ended by itself", chaos_role_names[c->role],
		          status);
}

static bool is_crash(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL &&
	       WTERMSIG(status) != SIGTERM && WTERMSIG(status) != SIGINT;
}

/* Collects who has ended. Services that programs have started come to this process. */
void crew_collect(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		const char *what = "a service, or a program's child";

		if (pid == crew.frozen)
			crew.frozen = crew.world->stopped = 0;
		for (u32 i = 0; i < NR_CLIENTS; i++) {
			if (crew.clients[i].pid == pid) {
				client_went(&crew.clients[i], status);
				pid = 0;
			}
		}
		for (u32 i = 0; pid && i < MOST_COMMANDS; i++) {
			if (crew.commands[i].pid == pid) {
				what = crew.commands[i].what;
				crew.commands[i].pid = 0;
			}
		}
		if (pid && is_crash(status))
			crew_fail("crashed", what, status);
	}
	for (u32 i = 0; i < MOST_COMMANDS; i++) {
		if (crew.commands[i].pid &&
		    strcmp(crew.commands[i].what, "serve") != 0 &&
		    host_now_ns() > crew.commands[i].since_ns + COMMAND_NS) {
			crew_fail("hangs", crew.commands[i].what, 0);
			kill(crew.commands[i].pid, SIGKILL);
			crew.commands[i].since_ns = host_now_ns();
		}
	}
}

/* `lodic COMMAND --socket S MORE...`; nobody waits for it here. */
void crew_command(const char *const *arguments)
{
	const char *argv[MOST_ARGUMENTS] = { "lodic", arguments[0], "--socket",
		                             crew.world->holders.socket };
	struct command *c = crew.commands;

	while (c < crew.commands + MOST_COMMANDS && c->pid)
		c++;
	if (c == crew.commands + MOST_COMMANDS)
		return; /* the machine is slow */
	for (u32 i = 1; arguments[i]; i++)
		argv[3 + i] = arguments[i];
	c->what = arguments[0];
	c->since_ns = host_now_ns();
	c->pid = child_start();
	if (c->pid == 0) {
		output_to(crew.log_path);
		execv(crew.world->lodic, (char *const *)argv);
		_exit(127);
	}
}

static bool is_service(const char *name)
{
	char path[64], text[512] = "";
	int parent = 0;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.16s/stat", name);
	f = fopen(path, "re");
	if (!f)
		return false;
	/* lodic's own name has no blank. */
	if (fscanf(f, "%*d %*s %*c %d", &parent) != 1)
		parent = 0;
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%.16s/cmdline", name);
	f = parent == getpid() ? fopen(path, "re") : NULL;
	if (!f)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	return n > 0 && strcmp(text + strlen(text) + 1, "serve") == 0;
}

/* All of them: one may be about to take another's place. */
u32 crew_services(pid_t found[MOST_SERVICES])
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	u32 nr = 0;

	REQUIRE(folder, "/proc: %s", strerror(errno));
	while (nr < MOST_SERVICES && (entry = readdir(folder)))
		if (entry->d_name[0] > '0' && entry->d_name[0] <= '9' &&
		    is_service(entry->d_name))
			found[nr++] = atoi(entry->d_name);
	closedir(folder);
	return nr;
}

void crew_show(pid_t pid)
{
	static const char *const files[] = { "cmdline", "status", "wchan", "syscall" };
	char path[64], text[1024];

	for (u32 i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		FILE *f;
		size_t n;

		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		f = fopen(path, "re");
		if (!f)
			continue;
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
		for (size_t k = 0; k < n; k++)
			text[k] = text[k] ? text[k] : ' ';
		text[n] = '\0';
		printf("%s: %s\n", path, text);
	}
}
