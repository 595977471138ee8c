// SPDX-License-Identifier: GPL-2.0
#include "kloc_case.h"
#include "data.h"
#include "file.h"
#include "klog.h"
#include "ktap.h"
#include "options.h"
#include "text.h"

struct kloc_at kloc_at;

int kloc_must_open(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		ktap_bail("open %s", name);
	return fd;
}

void kloc_check_data(int fd, size_t bytes)
{
	size_t at = 0, zeros;
	ssize_t n = pread(fd, kloc_at.dest, bytes, 0);

	if (n != (ssize_t)bytes)
		ktap_fail("read: %zd of %zu bytes", n, bytes);
	else if (data_check(kloc_at.dest, kloc_at.data, bytes, false, &at, &zeros))
		ktap_fail("byte %zu is 0x%02x, not 0x%02x", at, kloc_at.dest[at], kloc_at.data[at]);
}

void kloc_make(void)
{
	int err;

	snprintf(kloc_at.path, sizeof(kloc_at.path), "%s/kloc", kloc_at.dir);
	err = file_make(kloc_at.path, kloc_at.data, BYTES);
	if (err) {
		errno = -err;
		ktap_bail("%s", kloc_at.path);
	}
	kloc_wait();
}

int kloc_open_cached(void)
{
	int fd;

	kloc_make();
	if (!strcmp(kloc_at.dir, "/mnt/tmpfs")) {
		kloc_set("promote", "1");
		fd = kloc_must_open(kloc_at.path, O_RDWR);
		kloc_wait();
		kloc_set("promote", "0");
	} else {
		fd = kloc_must_open(kloc_at.path, O_RDWR);
	}
	kloc_check_data(fd, BYTES);
	kloc_expect("cached", fd, BYTES, PAGES, 0);
	return fd;
}

void kloc_expect_state(const char *when, int fd, const char *state, u32 opens)
{
	struct kloc_knode k;
	struct stat st;

	if (fd < 0 ? stat(kloc_at.path, &st) : fstat(fd, &st))
		ktap_bail("stat");
	if (!kloc_knode(&st, &k))
		ktap_fail("%s: there is no knode", when);
	else if (strcmp(k.state, state) || k.opens != opens)
		ktap_fail("%s: %s with %u opens, not %s with %u", when, k.state, k.opens, state,
		          opens);
}

void kloc_expect_closed(const char *when, long fast, long slow)
{
	struct kloc_knode k = { .state = "" };
	struct stat st;

	if (stat(kloc_at.path, &st) || !kloc_knode(&st, &k))
		ktap_fail("%s: there is no knode", when);
	else if (k.pages.fast != fast || k.pages.slow != slow)
		ktap_fail("%s: %ld pages fast and %ld slow, not %ld and %ld", when,
		          k.pages.fast, k.pages.slow, fast, slow);
}

/* -- Running -------------------------------------------------------------------------------- */

static void run(const struct kloc_case *c)
{
	long long knodes;

	kloc_reset();
	kloc_wait();
	knodes = kloc_stat("knodes");
	kloc_at.dir = c->dir;
	c->run();
	unlink(kloc_at.path);
	kloc_wait();
	if (kloc_stat("knodes") > knodes)
		ktap_fail("%lld knodes more than before", kloc_stat("knodes") - knodes);
}

/* In a process of its own, whose words are comments. Returns whether it failed. */
static bool fails(const struct kloc_case *c)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		run(c);
		fflush(stdout);
		_exit(ktap_failing() ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/* ok: the case passes in a kernel that is not broken. */
static void control(const struct kloc_case *c, const char *mutant, bool ok)
{
	char name[64];

	if (text_write(KLOC_MUTANT, mutant))
		ktap_bail("no mutant %s", mutant);
	if (!ok)
		ktap_fail("%s fails in any case", c->name);
	if (!fails(c))
		ktap_fail("%s passes though the kernel is broken", c->name);
	text_write(KLOC_MUTANT, "none");
	snprintf(name, sizeof(name), "%s-notices-%s", c->name, mutant);
	ktap_result(name);
}

static const struct kloc_case *case_named(const struct kloc_case *cases, const char *name)
{
	while (strcmp(cases->name, name))
		cases++;
	return cases;
}

int kloc_cases_main(int argc, char **argv, const struct kloc_case *cases, u32 nr_cases,
                    const struct kloc_control *controls, u32 nr_controls)
{
	bool was_ok[64] = { false };
	bool has_mutants;
	int klog;
	u32 i;

	options_parse(argc, argv);
	if (!kloc_there()) {
		printf("1..0 # SKIP no KLOC, or no node of memory alone\n");
		return KTAP_SKIPPED;
	}
	kloc_at.data = data_expected(BYTES + PAGE);
	kloc_at.dest = malloc(BYTES + PAGE);
	klog = klog_open();
	has_mutants = !access(KLOC_MUTANT, W_OK) && !opt.only;
	ktap_plan((opt.only ? 1 : nr_cases) + (has_mutants ? nr_controls : 0));
	for (i = 0; i < nr_cases; i++) {
		if (opt.only && strcmp(opt.only, cases[i].name))
			continue;
		run(&cases[i]);
		klog_check(klog);
		was_ok[i] = !ktap_failing();
		ktap_result(cases[i].name);
	}
	for (i = 0; has_mutants && i < nr_controls; i++) {
		const struct kloc_case *c = case_named(cases, controls[i].name);

		control(c, controls[i].mutant, was_ok[c - cases]);
	}
	/* A control of an underflow may have made the kernel warn. */
	kloc_reset();
	kloc_set("enabled", "0");
	return ktap_end();
}
