/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A mapping's pages: which the shim has asked for, what they may cost, and which file goes
 * first.
 *
 * The shim maps the whole file, which costs one vma. It asks for ptes page by page
 * (port_fault_in()), each just after the program has read the page. The page is then
 * in memory, and no I/O follows (M6). The kernel also fills in ptes of neighbours that
 * are in memory. When the kernel takes a page away its pte goes; map.c asks again now
 * and then.
 *
 * The budget is counted in spans: 2 MiB, what one page of ptes leads to. A span counts
 * whole once the shim has asked for a page of it. So the budget bounds page tables
 * whatever the program reads: BUDGET / 512, and one to three pages a file for the upper
 * levels. A file of more than a span is mapped at a multiple of it, so that span and
 * table agree. The kernel puts smaller files side by side, so that they share tables.
 *
 * Victims are whole files, by second chance: a file whose visited mark is not set since
 * the hand last came by. If all are in use the shim throws nothing out and maps no more.
 * To trade one hot file for another costs two calls and wins nothing.
 */
#define _GNU_SOURCE
#include "preload/map_pages.h"

#include "preload/map_report.h"
#include "preload/memory.h"

static u64 round_up(u64 n, u64 to)
{
	return (n + to - 1) / to * to;
}

bool map_pages_ready(const struct map_file *f, u64 offset, u64 n)
{
	const u64 *bits = (const u64 *)host_load_acquire(&f->bits);
	u64 page = offset >> MAP_PAGE_SHIFT;
	u64 last = (offset + n - 1) >> MAP_PAGE_SHIFT;
	u64 nr_pages;

	if (!bits)
		return true;
	nr_pages = host_load_relaxed(bits++);
	for (; page <= last && page < nr_pages; page++) {
		u64 word = host_load_relaxed(&bits[page / 64]);

		if (page % 64 == 0 && page + 63 <= last && word == ~(u64)0) {
			page += 63;
			continue;
		}
		if (!(word >> (page % 64) & 1))
			return false;
	}
	return true;
}

/* Makes the bits, all clear, behind a word that says how many there are. A thread that comes
 * with an old pointer thus stays within what it leads to. false: there is no memory. */
static bool bits_make(struct map_file *f, u64 nr_pages)
{
	u64 bytes = sizeof(u64) + round_up(nr_pages, MAP_SPAN_PAGES) / 8;
	u64 *bits = f->few_bits;
	void *p;

	if (nr_pages <= MAP_SPAN_PAGES) {
		for (u32 i = 1; i <= MAP_SPAN_WORDS; i++)
			host_store_relaxed(&bits[i], 0);
	} else {
		if (f->many_bytes < bytes) {
			/* The old piece stays where it is, empty. */
			bytes = round_up(2 * bytes, MAP_PAGE_BYTES);
			p = memory_zeros(bytes);
			if (!p)
				return false;
			/* A child does not get the pointer either. */
			port_advise(p, bytes, PORT_NOT_IN_CHILD);
			f->many_bits = p;
			f->many_bytes = bytes;
		}
		bits = f->many_bits;
	}
	host_store_relaxed(&bits[0], nr_pages);
	host_store_release(&f->bits, (u64)bits);
	return true;
}

/* The words of span's pages. */
static u64 *span_words(const struct map_file *f, u64 span)
{
	return (u64 *)f->bits + 1 + span * MAP_SPAN_WORDS;
}

/* Maps bytes of fd; at a multiple of a span if they are more than one. 0, or as port_map(). */
static int span_map(int fd, u64 bytes, void **ret_at)
{
	u64 slack = MAP_SPAN_BYTES - MAP_PAGE_BYTES;
	void *found;
	u64 p, at;
	int err;

	if (bytes <= MAP_SPAN_BYTES)
		return port_map(NULL, bytes, PORT_READ, PORT_SHARED, fd, 0, ret_at);
	err = port_map(NULL, bytes + slack, PORT_NONE,
	               PORT_PRIVATE | PORT_ANONYMOUS | PORT_UNRESERVED, -1, 0, &found);
	if (err)
		return err;
	p = (u64)found;
	at = round_up(p, MAP_SPAN_BYTES);
	if (at > p)
		port_unmap((void *)p, at - p);
	if (p + slack > at)
		port_unmap((void *)(at + bytes), p + slack - at);
	err = port_map((void *)at, bytes, PORT_READ, PORT_SHARED | PORT_FIXED, fd, 0,
	               ret_at);
	if (err)
		port_unmap((void *)at, bytes);
	return err;
}

static void bits_drop(struct map_file *f)
{
	bool many = f->bits == (u64)f->many_bits;

	host_store_release(&f->bits, 0);
	if (many)
		port_advise(f->many_bits, f->many_bytes, PORT_DROP);
}

void map_pages_prove(struct map_file *f)
{
	host_store_relaxed(&f->reads, 0);
	host_store_relaxed(&f->read_bytes, 0);
	host_store_relaxed(&f->jumps, 0);
	host_store_relaxed(&f->next, MAP_NOWHERE);
	host_store_relaxed(&f->first, MAP_NOWHERE);
	host_store_relaxed(&f->look_again, shim.map.options.min_reads);
}

void map_pages_unmap(struct map_file *f)
{
	struct map_state *s = shim.map.state;
	bool measure = map_report_wants_tables();
	u64 address = f->address;
	u64 before = measure ? map_report_tables() : 0;

	host_store_relaxed(&f->address, 0);
	port_unmap((void *)address, f->nr_pages << MAP_PAGE_SHIFT);
	if (before) {
		u64 after = map_report_tables();

		s->measured++;
		s->measured_tables += f->nr_tables;
		s->measured_bytes += before > after ? before - after : 0;
	}
	bits_drop(f);
	s->unmapped++;
	s->now.files--;
	s->now.bytes -= f->cost_bytes;
	s->now.tables -= f->nr_tables;
	map_pages_prove(f);
}

void map_pages_unmap_all(void)
{
	for (u32 i = 0; i < MAP_FILES; i++)
		if (shim.map.state->files[i].address)
			map_pages_unmap(&shim.map.state->files[i]);
}

/* Unmaps a file other than f that no read has visited since the last search. false: there is
 * none. */
static bool evict_one(const struct map_file *f)
{
	struct map_state *s = shim.map.state;

	for (u32 i = 0; i < MAP_FILES; i++) {
		struct map_file *victim = &s->files[s->hand++ % MAP_FILES];

		if (victim == f || !victim->address)
			continue;
		if (host_load_relaxed(&victim->visited)) {
			host_store_relaxed(&victim->visited, 0);
			continue;
		}
		map_pages_unmap(victim);
		s->evicted++;
		return true;
	}
	return false;
}

/* Makes room for more of f. false: there is none. */
static bool room_make(const struct map_file *f, u64 bytes)
{
	if (bytes > shim.map.options.budget_bytes)
		return false;
	while (shim.map.state->now.bytes + bytes > shim.map.options.budget_bytes)
		if (!evict_one(f))
			return false;
	return true;
}

bool map_pages_map(struct map_file *f, int fd, enum map_skip *ret_skip)
{
	u64 bytes = round_up(f->bytes, MAP_PAGE_BYTES);
	struct map_state *s = shim.map.state;
	void *p;

	*ret_skip = MAP_BUDGET_FULL;
	if (!room_make(f, bytes < MAP_SPAN_BYTES ? bytes : MAP_SPAN_BYTES))
		return false;
	*ret_skip = MAP_FAILED_MMAP;
	if (span_map(fd, bytes, &p) != 0)
		return false;
	/* In a child the mapping would hold the file open (M2). It would have no ptes
	 * there either: the kernel does not copy those that a fault can bring back. */
	if (port_advise(p, bytes, PORT_NOT_IN_CHILD) != 0 ||
	    !bits_make(f, bytes >> MAP_PAGE_SHIFT)) {
		port_unmap(p, bytes);
		return false;
	}
	/* A huge page has no ptes to count in. A kernel without huge pages refuses, which
	 * does no harm. */
	port_advise(p, bytes, PORT_SMALL_PAGES);
	f->nr_pages = bytes >> MAP_PAGE_SHIFT;
	host_store_relaxed(&f->pages_stand, 0);
	host_store_relaxed(&f->visited, 1);
	host_store_relaxed(&f->fd, (u64)fd);
	f->nr_asked = 0;
	f->cost_bytes = 0;
	f->nr_tables = 0;
	host_store_release(&f->address, (u64)p);
	s->mapped++;
	if (!f->seen_mapped) {
		f->seen_mapped = 1;
		s->nr_files++;
	}
	if (++s->now.files > s->peak.files)
		s->peak.files = s->now.files;
	return true;
}

static bool span_is_new(const struct map_file *f, u64 span)
{
	for (u64 i = 0; i < MAP_SPAN_WORDS; i++)
		if (span_words(f, span)[i])
			return false;
	return true;
}

/* Room in the budget for one more span of f. false: there is none. */
static bool span_pay(struct map_file *f, u64 span)
{
	struct map_state *s = shim.map.state;
	u64 bytes = (f->nr_pages << MAP_PAGE_SHIFT) - (span << MAP_SPAN_SHIFT);
	u64 tables = 1;

	if (bytes > MAP_SPAN_BYTES)
		bytes = MAP_SPAN_BYTES;
	if (!room_make(f, bytes))
		return false;
	/* A small file may lie across two tables. */
	if (f->address >> MAP_SPAN_SHIFT !=
	            (f->address + (f->nr_pages << MAP_PAGE_SHIFT) - 1) >>
	                    MAP_SPAN_SHIFT &&
	    f->nr_pages <= MAP_SPAN_PAGES)
		tables = 2;
	f->cost_bytes += bytes;
	f->nr_tables += tables;
	s->now.bytes += bytes;
	s->now.tables += tables;
	if (s->now.bytes > s->peak.bytes)
		s->peak.bytes = s->now.bytes;
	if (s->now.tables > s->peak.tables)
		s->peak.tables = s->now.tables;
	return true;
}

/* Pages [from, to) of one span. */
static void span_ask(struct map_file *f, u64 from, u64 to)
{
	struct map_state *s = shim.map.state;
	u64 *words = span_words(f, from / MAP_SPAN_PAGES);

	/* A file that became shorter meanwhile gives an error here, and no signal. */
	if (port_fault_in((void *)(f->address + (from << MAP_PAGE_SHIFT)),
	                  (to - from) << MAP_PAGE_SHIFT, false) != 0)
		s->ask_failed++;
	else
		s->asked++;
	for (u64 page = from; page < to; page++) {
		u64 *word = &words[page % MAP_SPAN_PAGES / 64];
		u64 bit = (u64)1 << (page % 64);

		if (*word & bit)
			continue;
		host_store_relaxed(word, *word | bit);
		f->nr_asked++;
	}
}

void map_pages_ask(struct map_file *f, u64 offset, u64 n)
{
	u64 page = offset >> MAP_PAGE_SHIFT;
	u64 end = ((offset + n - 1) >> MAP_PAGE_SHIFT) + 1;

	if (end > f->nr_pages)
		end = f->nr_pages;
	while (page < end) {
		u64 span = page / MAP_SPAN_PAGES;
		u64 stop = (span + 1) * MAP_SPAN_PAGES;

		if (stop > end)
			stop = end;
		if (span_is_new(f, span) && !span_pay(f, span)) {
			shim.map.state->skips[MAP_BUDGET_FULL]++;
			host_store_relaxed(&f->pages_stand, MAP_PAGES_FULL);
			return;
		}
		span_ask(f, page, stop);
		page = stop;
	}
	host_store_relaxed(&f->pages_stand,
	                   f->nr_asked == f->nr_pages ? MAP_PAGES_WHOLE : 0);
}
