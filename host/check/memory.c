/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The checker's memory: one arena at addresses that stay, so that a copy can put it back.
 * A byte of shadow for each word says whether a task may touch it.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host/check/engine.h"

#define ARENA_BYTES ((size_t)256 << 20)
#define MAX_NAMES 512
#define FREED_BYTE 0xdb

enum shadow { SHADOW_NONE, SHADOW_LIVE, SHADOW_FREED, SHADOW_POISONED };

static struct {
	u8 *bytes, *shadow; /* a shadow byte per 8 */
	u8 *bytes_saved, *shadow_saved;
	size_t used, used_saved;
	size_t allocated, allocated_saved; /* less what was given back */
	u8 *known; /* as it was when memory_has_changed() last looked */
	bool watched;
	struct {
		const u8 *from;
		size_t bytes;
		char name[40];
	} names[MAX_NAMES];
	u32 nr_names;
} memory;

static u8 *map(size_t n)
{
	u8 *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		perror("lodic-check: mmap");
		exit(2);
	}
	return p;
}

void memory_reset(void)
{
	if (!memory.bytes) {
		memory.bytes = map(ARENA_BYTES);
		memory.bytes_saved = map(ARENA_BYTES);
		memory.known = map(ARENA_BYTES);
		memory.shadow = map(ARENA_BYTES / 8);
		memory.shadow_saved = map(ARENA_BYTES / 8);
	}
	memset(memory.bytes, 0, memory.used);
	memset(memory.shadow, 0, memory.used / 8);
	memory.used = memory.allocated = 0;
	memory.nr_names = 0;
}

void memory_snapshot(void)
{
	memcpy(memory.bytes_saved, memory.bytes, memory.used);
	memcpy(memory.shadow_saved, memory.shadow, memory.used / 8);
	memory.used_saved = memory.used;
	memory.allocated_saved = memory.allocated;
}

void memory_restore(void)
{
	size_t more = memory.used - memory.used_saved;

	memcpy(memory.bytes, memory.bytes_saved, memory.used_saved);
	memcpy(memory.shadow, memory.shadow_saved, memory.used_saved / 8);
	memset(memory.bytes + memory.used_saved, 0, more);
	memset(memory.shadow + memory.used_saved / 8, 0, more / 8);
	memory.used = memory.used_saved;
	memory.allocated = memory.allocated_saved;
	if (memory.watched)
		memcpy(memory.known, memory.bytes, memory.used);
}

void memory_watch(bool on)
{
	memory.watched = on;
}

bool memory_has_changed(void)
{
	if (!memory.watched || memcmp(memory.known, memory.bytes, memory.used) == 0)
		return false;
	memcpy(memory.known, memory.bytes, memory.used);
	return true;
}

void memory_accept(const u64 *p)
{
	*(u64 *)(memory.known + ((const u8 *)p - memory.bytes)) = *p;
}

bool memory_is_shared(const void *p)
{
	return (const u8 *)p >= memory.bytes &&
	       (const u8 *)p < memory.bytes + memory.used;
}

void *host_alloc(size_t n, size_t align)
{
	size_t at;

	if (access_refused(CHECK_NO_MEMORY))
		return NULL;
	if (align < 64)
		align = 64;
	/* A line that nobody may touch is in between: an index past the end shows. */
	at = (memory.used + 64 + align - 1) & ~(align - 1);
	n = (n + 63) & ~(size_t)63;
	if (at + n > ARENA_BYTES)
		return NULL;
	memset(memory.shadow + memory.used / 8, SHADOW_NONE, (at - memory.used) / 8);
	memset(memory.shadow + at / 8, SHADOW_LIVE, n / 8);
	memory.used = at + n;
	memory.allocated += n;
	engine.foot.everything = true;
	return memory.bytes + at;
}

static void shade(const void *p, size_t n, enum shadow shadow)
{
	size_t at = (size_t)((const u8 *)p - memory.bytes);

	if (n == 0)
		return;
	if (at >= memory.used || n > memory.used - at)
		engine_fail("memory given back that was never allocated");
	engine.foot.everything = true;
	memset(memory.shadow + at / 8, shadow, (n + 7) / 8);
}

void host_free(void *p, size_t n)
{
	if (!p)
		return;
	check_tell(); /* as an allocator's lock does: its caller's stores come first */
	if (memory_is_shared(p) &&
	    memory.shadow[((const u8 *)p - memory.bytes) / 8] == SHADOW_FREED)
		engine_fail("memory freed twice");
	shade(p, n, SHADOW_FREED);
	memset(p, FREED_BYTE, n); /* a plain access afterwards finds no pointer */
	memory.allocated -= (n + 63) & ~(size_t)63;
}

u64 check_allocated(void)
{
	return memory.allocated;
}

void check_poison(const void *p, size_t n)
{
	shade(p, n, SHADOW_POISONED);
}

void check_revive(const void *p, size_t n)
{
	shade(p, n, SHADOW_LIVE);
}

void memory_check(const void *p, size_t n, const char *verb)
{
	size_t at = (size_t)((const u8 *)p - memory.bytes);
	char text[160], name[80];
	size_t i;

	if (at >= memory.used || n > memory.used - at) {
		snprintf(text, sizeof(text), "%s of memory that was never allocated",
		         verb);
		engine_fail(text);
	}
	for (i = at / 8; i <= (at + n - 1) / 8; i++) {
		if (memory.shadow[i] == SHADOW_LIVE)
			continue;
		snprintf(text, sizeof(text), "%s: %s of %s",
		         memory.shadow[i] == SHADOW_NONE ? "past the end"
		                                         : "use after free",
		         verb,
		         memory_name(memory.bytes + i * 8, name, sizeof(name)));
		engine_fail(text);
	}
}

void memory_check_word(const void *p, const char *verb)
{
	char text[160], name[80];

	memory_check(p, 8, verb);
	if (((uintptr_t)p & 7) == 0)
		return;
	snprintf(text, sizeof(text), "%s of a word that is not aligned: %s", verb,
	         memory_name(p, name, sizeof(name)));
	engine_fail(text);
}

void check_name(const void *p, size_t bytes, const char *format, ...)
{
	va_list args;

	if (memory.nr_names == MAX_NAMES)
		return;
	memory.names[memory.nr_names].from = p;
	memory.names[memory.nr_names].bytes = bytes;
	va_start(args, format);
	vsnprintf(memory.names[memory.nr_names].name,
	          sizeof(memory.names[memory.nr_names].name), format, args);
	va_end(args);
	memory.nr_names++;
}

/* The last name given wins, so that parts can be named after the whole. */
const char *memory_name(const void *p, char *buffer, size_t n)
{
	for (u32 i = memory.nr_names; i-- > 0;) {
		size_t off = (size_t)((const u8 *)p - memory.names[i].from);

		if ((const u8 *)p < memory.names[i].from ||
		    off >= memory.names[i].bytes)
			continue;
		if (memory.names[i].bytes <= 8)
			snprintf(buffer, n, "%s", memory.names[i].name);
		else
			snprintf(buffer, n, "%s+%zu", memory.names[i].name, off);
		return buffer;
	}
	snprintf(buffer, n, "word %zu", (size_t)((const u8 *)p - memory.bytes) / 8);
	return buffer;
}
