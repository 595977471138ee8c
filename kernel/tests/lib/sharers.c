// SPDX-License-Identifier: GPL-2.0
#include "sharers.h"
#include "file.h"
#include "ktap.h"
#include "proactive.h"
#include "waiter.h"

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>

#define PRESENT (1ull << 63) /* of an entry in /proc/PID/pagemap */

static const struct sharers *shared; /* in a child: what hold_main() reads */
static u8 *hold_to;
static pthread_barrier_t hold_start;

/* No thread reads while another one is created. That takes the mmap_lock, and a process's first
 * local reference is not taken under it: lodic_mm_mark(). */
static void *hold_main(void *arg)
{
	u64 i = (u64)(uintptr_t)arg;
	size_t bytes = HOLD_EACH * PAGE;

	pthread_barrier_wait(&hold_start);
	if (pread(shared->fd, hold_to + i * bytes, bytes, i * bytes) < 0)
		perror("pread");
	return NULL;
}

/* Returns when each thread has met a fault in its copy. */
static int hold(const struct sharers *s)
{
	size_t bytes = HOLD_PAGES * PAGE;
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffd_msg msg;
	pthread_t thread;
	u64 i;
	int fd;

	shared = s;
	hold_to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	               0);
	reg.range.start = (u64)(uintptr_t)hold_to;
	reg.range.len = bytes;
	fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		return -errno;
	if (pthread_barrier_init(&hold_start, NULL, HOLD_THREADS))
		return -ENOMEM;
	for (i = 0; i < HOLD_THREADS; i++) {
		if (pthread_create(&thread, NULL, hold_main, (void *)(uintptr_t)i))
			return -EAGAIN;
	}
	for (i = 0; i < HOLD_THREADS; i++) {
		if (read(fd, &msg, sizeof(msg)) != sizeof(msg))
			return -EIO;
	}
	return 0;
}

static int sharer_map(void *arg)
{
	const struct sharers *s = arg;
	volatile char *map = mmap(AREA_A, s->pages * PAGE, PROT_READ,
	                          MAP_SHARED | MAP_FIXED, s->fd, 0);
	u32 i;

	if (map == MAP_FAILED)
		return -errno;
	for (i = 0; i < s->pages; i++)
		(void)map[i * PAGE];
	return 0;
}

static int sharer_map_and_hold(void *arg)
{
	int err = sharer_map(arg);

	return err ? err : hold(arg);
}

/* In order, and without a mark for readahead, which a local reference would avoid. */
static void read_once(const struct sharers *s)
{
	static u8 to[64 * PAGE];
	u32 i;

	posix_fadvise(s->fd, 0, 0, POSIX_FADV_RANDOM);
	for (i = 0; i < s->pages; i += 64)
		if (pread(s->fd, to, sizeof(to), i * PAGE) <= 0)
			ktap_bail("reading the file");
}

void sharers_start(struct sharers *s)
{
	u32 i;

	read_once(s);
	for (i = 0; i < s->nr; i++) {
		s->pids[i] = waiter_start(i == s->holder ? sharer_map_and_hold : sharer_map,
		                          s);
		if (s->pids[i] < 0)
			ktap_bail("sharer %u of %u", i, s->nr);
	}
}

void sharers_age(const struct sharers *s)
{
	u32 i;

	for (i = 0; i < s->nr; i++)
		if (proactive_age(s->pids[i]))
			ktap_bail("clear_refs");
}

u64 sharers_entries(const struct sharers *s, bool in_held)
{
	u32 pages = in_held ? HOLD_PAGES : s->pages, i, page;
	u64 *words = calloc(pages, sizeof(u64)), nr = 0;
	char path[64];

	for (i = 0; i < s->nr; i++) {
		off_t at = (u64)(uintptr_t)AREA_A / PAGE * sizeof(u64);
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/pagemap", s->pids[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = pread(fd, words, pages * sizeof(u64), at);
		if (n != (ssize_t)(pages * sizeof(u64)))
			ktap_bail("%s", path);
		close(fd);
		for (page = 0; page < pages; page++)
			nr += !!(words[page] & PRESENT);
	}
	free(words);
	return nr;
}

u32 sharers_resident(const struct sharers *s)
{
	unsigned char *in = calloc(s->pages, 1);
	void *map = mmap(NULL, s->pages * PAGE, PROT_READ, MAP_SHARED, s->fd, 0);
	u32 i, nr = 0;

	if (map == MAP_FAILED || mincore(map, s->pages * PAGE, in))
		ktap_bail("mincore");
	for (i = 0; i < s->pages; i++)
		nr += in[i] & 1;
	munmap(map, s->pages * PAGE);
	free(in);
	return nr;
}

void sharers_stop(struct sharers *s)
{
	u32 i;

	for (i = 0; i < s->nr; i++)
		waiter_kill(s->pids[i]);
	s->nr = 0;
}
