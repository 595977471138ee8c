// SPDX-License-Identifier: GPL-2.0
/* A case of hold.c: the page table in which a reader has counted becomes something else. */
#include "whole.h"
#include "act.h"
#include "clock.h"
#include "cpu.h"
#include "ktap.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>

#define PIPES 192u
#define PIPE_PAGES 16u
#define WORDS (PAGE / sizeof(u64))

#define ENTRY_FLAGS 0x8000000000000025ull /* no-execute, accessed, user, present */
#define ENTRY_ONE (1ull << 52)            /* one count */

/* The frame of a page of this process, or 0. */
static u64 frame_of(const char *at)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	u64 word = 0;

	if (fd < 0)
		return 0;
	if (pread(fd, &word, sizeof(word), (u64)at / PAGE * sizeof(word)) !=
	    sizeof(word))
		word = 0;
	close(fd);
	return word >> 63 ? word & ((1ull << 55) - 1) : 0;
}

/* Fills pages of the kernel with one word: pipes take them from where tables come from. */
static u32 pipes_fill(int pipes[PIPES][2], const u64 *page)
{
	u32 i, j;

	for (i = 0; i < PIPES; i++) {
		if (pipe2(pipes[i], O_NONBLOCK | O_CLOEXEC))
			return i;
		for (j = 0; j < PIPE_PAGES; j++) {
			if (write(pipes[i][1], page, PAGE) != (ssize_t)PAGE)
				break;
		}
	}
	return PIPES;
}

/* Takes all of it back; returns how many words are no longer what they were. */
static u64 pipes_changed(int pipes[PIPES][2], u32 nr, u64 word, u64 *ret_pages)
{
	u64 page[WORDS], changed = 0;
	u32 i, j;

	*ret_pages = 0;
	for (i = 0; i < nr; i++) {
		while (read(pipes[i][0], page, PAGE) == (ssize_t)PAGE) {
			++*ret_pages;
			for (j = 0; j < WORDS; j++)
				changed += page[j] != word;
		}
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	return changed;
}

/*
 * One reader holds a page. Its mapping goes, and with it the page table, whose frame
 * becomes a page of a pipe. All words there are what the entry was with the reader's count.
 * The reader must not give its count back there.
 */
void whole_table_reused(struct held *h)
{
	static int pipes[PIPES][2];
	static u64 page[WORDS];
	u64 word = ENTRY_FLAGS | ENTRY_ONE | frame_of(h->map) * PAGE, changed, pages;
	u32 i, nr;

	if (!frame_of(h->map)) {
		ktap_fail("pagemap does not say the frame");
		return;
	}
	for (i = 0; i < WORDS; i++)
		page[i] = word;
	cpu_pin(0);
	held_take(h, 0, 1, 0);
	if (act_munmap(h))
		ktap_fail("munmap: %s", strerror(errno));
	/* Where tables are freed by RCU, that has to come first. */
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	clock_sleep_ms(20);
	nr = pipes_fill(pipes, page);
	held_release(h, 0, 1, false);
	changed = pipes_changed(pipes, nr, word, &pages);
	if (changed)
		ktap_fail("%llu words of %llu pages changed",
		          (unsigned long long)changed, (unsigned long long)pages);
}
