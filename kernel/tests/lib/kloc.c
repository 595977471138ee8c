// SPDX-License-Identifier: GPL-2.0
#include "kloc.h"
#include "clock.h"
#include "file.h"
#include "ktap.h"
#include "text.h"

#include <sys/sysmacros.h>

static bool says(const char *path, const char *text)
{
	char have[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (read(fd, have, sizeof(have) - 1) < 0)
		have[0] = 0;
	close(fd);
	have[strcspn(have, "\n")] = 0;
	return !strcmp(have, text);
}

bool kloc_there(void)
{
	return !access(KLOC_DIR "enabled", W_OK) &&
	       says("/sys/devices/system/node/has_memory", "0-1") &&
	       says("/sys/devices/system/node/has_cpu", "0");
}

void kloc_set(const char *name, const char *value)
{
	char path[100];
	int err;

	snprintf(path, sizeof(path), KLOC_DIR "%s", name);
	err = text_write(path, value);
	if (err) {
		errno = -err;
		ktap_bail("%s: %s", path, value);
	}
}

void kloc_reset(void)
{
	kloc_set("tick_ms", "0");
	kloc_set("enabled", "1");
	kloc_set("policy", "kloc");
	kloc_set("promote", "0");
	kloc_set("memsize", "0 max");
	kloc_set("memsize", "1 max");
	kloc_set("age_limit", "16");
	kloc_set("ping_pong", "8");
	kloc_set("forgive", "64");
	kloc_set("rate_mb", "0");
	kloc_set("scan", "4096");
}

long long kloc_stat(const char *name)
{
	FILE *f = fopen(KLOC_DIR "stat", "re");
	long long n, found = -1;
	char word[32];

	while (f && fscanf(f, "%31s %lld", word, &n) == 2) {
		if (!strcmp(word, name))
			found = n;
	}
	if (f)
		fclose(f);
	return found;
}

long long kloc_open_now(void)
{
	return kloc_stat("opens") - kloc_stat("closes");
}

void kloc_check_sums(long long opens)
{
	u32 i;

	/* A child that was killed with its parent may be about to close. */
	for (i = 0; i < 50 && kloc_open_now() != opens; i++)
		clock_sleep_ms(100);
	if (kloc_open_now() != opens)
		ktap_fail("%lld opens more than closes, %lld before", kloc_open_now(), opens);
	for (i = 0; i < 50; i++) {
		text_write("/proc/sys/vm/stat_refresh", "1");
		if (!text_vmstat("nr_isolated_file"))
			return;
		clock_sleep_ms(100);
	}
	ktap_fail("%lld pages are isolated", text_vmstat("nr_isolated_file"));
}

void kloc_tick(u32 times)
{
	if (text_write_number(KLOC_DEBUG "tick", times))
		ktap_bail("tick");
}

void kloc_wait(void)
{
	if (text_read_number(KLOC_DEBUG "wait") < 0)
		ktap_fail("kloc/wait: %s", strerror(errno));
}

bool kloc_knode(const struct stat *st, struct kloc_knode *ret)
{
	FILE *f = fopen(KLOC_DEBUG "knodes", "re");
	unsigned long ino;
	char line[256];
	u32 major_, minor_;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%u:%u %lu %11s %u %u %u %ld %ld", &major_, &minor_, &ino,
		               ret->state, &ret->opens, &ret->age, &ret->moves,
		               &ret->pages.fast, &ret->pages.slow) == 9 &&
		        ino == st->st_ino && major_ == major(st->st_dev) &&
		        minor_ == minor(st->st_dev);
	if (f)
		fclose(f);
	return found;
}

struct kloc_where kloc_where(int fd, size_t bytes)
{
	size_t nr = (bytes + PAGE - 1) / PAGE, i;
	struct kloc_where w = { 0, 0 };
	char *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	unsigned char *cached = malloc(nr);
	void **pages = malloc(nr * sizeof(*pages));
	int *nodes = malloc(nr * sizeof(*nodes));

	if (map == MAP_FAILED || !cached || !pages || !nodes || mincore(map, bytes, cached))
		ktap_bail("where");
	madvise(map, bytes, MADV_RANDOM);
	for (i = 0; i < nr; i++) {
		pages[i] = map + i * PAGE;
		/* Only what is there already: this must not read anything in. */
		if (cached[i] & 1)
			*(volatile char *)pages[i];
	}
	if (file_move_pages(0, nr, pages, NULL, nodes, 0))
		ktap_bail("move_pages");
	for (i = 0; i < nr; i++) {
		w.fast += nodes[i] == 0;
		w.slow += nodes[i] == 1;
	}
	munmap(map, bytes);
	free(cached);
	free(pages);
	free(nodes);
	return w;
}

void kloc_expect(const char *when, int fd, size_t bytes, long fast, long slow)
{
	struct kloc_where w = kloc_where(fd, bytes);

	if (w.fast != fast || w.slow != slow)
		ktap_fail("%s: %ld pages fast and %ld slow, not %ld and %ld", when, w.fast,
		          w.slow, fast, slow);
}
