// SPDX-License-Identifier: GPL-2.0
/* KLOC: what an administrator chooses: policies, and which programs it is for. */
#include "kloc_case.h"
#include "memcg.h"
#include "test.h"

static void group_says(const char *dir_, const char *word)
{
	char name[100];

	snprintf(name, sizeof(name), "%s/memory.kloc", dir_);
	if (text_write(name, word))
		ktap_bail("%s: %s", name, word);
}

/* A program of the group makes a file. Has it a knode? */
static void expect_group(const char *when, bool want)
{
	struct kloc_knode k;
	struct stat st;
	pid_t pid;

	unlink(kloc_at.path);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		memcg_enter();
		kloc_make();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	if (stat(kloc_at.path, &st))
		ktap_bail("%s", kloc_at.path);
	if (kloc_knode(&st, &k) != want)
		ktap_fail("%s: %s", when, want ? "no knode" : "a knode");
}

/* memory.kloc decides for the programs of a group, and of those below. */
static void case_group(void)
{
	const char *root = "/sys/fs/cgroup", *group = "/sys/fs/cgroup/lodic-test";

	if (!memcg_make())
		ktap_bail("no memory control group");
	kloc_make();
	expect_group("nobody says anything", true);
	group_says(group, "off");
	expect_group("off", false);
	group_says(group, "default");
	expect_group("default", true);
	group_says(root, "off");
	expect_group("off in the root", false);
	group_says(group, "on");
	expect_group("on, below a group that is off", true);
	if (text_write("/sys/fs/cgroup/lodic-test/memory.kloc", "some") != -EINVAL)
		ktap_fail("memory.kloc takes any word");
	/* The next group of this name says nothing. */
	memcg_remove();
	memcg_make();
	expect_group("a new group", false);
	group_says(root, "default");
	expect_group("a new group, and nobody says anything", true);
	memcg_remove();
}

/* By the marks of the LRU: a close says nothing, and what was used again comes back. */
static void case_nimble(void)
{
	u32 i;
	int fd;

	kloc_set("policy", "nimble++");
	kloc_set("scan", "1000000");
	fd = kloc_open_cached();
	close(fd);
	kloc_tick(1);
	kloc_wait();
	kloc_expect_closed("closed", PAGES, 0);
	kloc_set("memsize", "0 0");
	for (i = 0; i < 5; i++) {
		kloc_tick(1);
		kloc_wait();
	}
	kloc_expect_closed("not used, no room", 0, PAGES);
	kloc_set("memsize", "0 max");
	fd = kloc_must_open(kloc_at.path, O_RDONLY);
	kloc_tick(1);
	kloc_wait();
	kloc_check_data(fd, BYTES);
	kloc_tick(1);
	kloc_wait();
	kloc_expect_closed("used once", 0, PAGES);
	kloc_check_data(fd, BYTES);
	kloc_tick(1);
	kloc_wait();
	kloc_expect_closed("used twice", PAGES, 0);
	close(fd);
}

/* Free memory of node 0, in bytes. */
static size_t free_bytes(void)
{
	FILE *f = fopen("/sys/devices/system/node/node0/meminfo", "re");
	unsigned long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Node 0 MemFree: %lu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return (size_t)kib << 10;
}

/* A child with so much memory that node 0 has none left to give. It lives until it is killed. */
static pid_t fill_node(void)
{
	size_t bytes = free_bytes() + (32ul << 20);
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		ktap_bail("pipe");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		if (map == MAP_FAILED || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		ktap_bail("the memory of node 0 cannot be taken");
	close(ready[0]);
	return pid;
}

/* A closed file whose pages are in fast memory stays there until programs need the room. */
static void case_need(void)
{
	long long demoted;
	pid_t pid;
	int fd;

	kloc_set("policy", "naive");
	fd = kloc_open_cached();
	close(fd);
	kloc_set("policy", "kloc");
	kloc_tick(1);
	kloc_wait();
	kloc_expect_closed("there is room", PAGES, 0);
	demoted = kloc_stat("demoted");
	pid = fill_node();
	kloc_tick(1);
	kloc_wait();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	kloc_expect_closed("programs need the room", 0, PAGES);
	if (kloc_stat("demoted") - demoted < PAGES)
		ktap_fail("%lld pages demoted", kloc_stat("demoted") - demoted);
}

static const struct kloc_case cases[] = {
	{ "need", "/mnt/ext4", case_need },
	{ "nimble", "/mnt/ext4", case_nimble },
	{ "group", "/mnt/ext4", case_group },
};

static const struct kloc_control controls[] = {
	{ "lru-blind", "nimble" },
	{ "need-ignored", "need" },
	{ "group-ignored", "group" },
};

int main(int argc, char **argv)
{
	return kloc_cases_main(argc, argv, cases, NR(cases), controls, NR(controls));
}
