/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The measured loops. Contract: bench/measure/method.h. */
#include "bench/measure/method.h"

#include <string.h>
#include <unistd.h>

#include "bench/measure/workload.h"
#include "host/host.h"

static const struct {
	const char *name;
	int cache;
} methods[NR_METHODS] = {
	[METHOD_PRIVATE] = { "private", -1 },
	[METHOD_MMAP] = { "mmap", -1 },
	[METHOD_LODIC_READ] = { "lodic_read", CACHE_LODIC },
	[METHOD_LODIC_READ_INLINE] = { "lodic_read_inline", CACHE_LODIC },
	[METHOD_LODIC_PIN] = { "lodic_pin", CACHE_LODIC },
	[METHOD_LODIC_PIN_INLINE] = { "lodic_pin_inline", CACHE_LODIC },
	[METHOD_LODIC_PIN_LOCK] = { "lodic_pin_lock", CACHE_LODIC_LOCK },
	[METHOD_LODIC_PIN_APART] = { "lodic_pin_apart", CACHE_LODIC_APART },
	[METHOD_PIN_ATOMIC] = { "pin_atomic", CACHE_ATOMIC },
	[METHOD_PIN_FROZEN] = { "pin_frozen", CACHE_FROZEN },
	[METHOD_PIN_HAZARD] = { "pin_hazard", CACHE_HAZARD },
	[METHOD_PIN_HAZARD_LIGHT] = { "pin_hazard_light", CACHE_HAZARD_LIGHT },
	[METHOD_LODIC_VIEW] = { "lodic_view", CACHE_LODIC },
	[METHOD_LODIC_VIEW_INLINE] = { "lodic_view_inline", CACHE_LODIC },
	[METHOD_PREAD] = { "pread", -1 },
	[METHOD_CAS_PAIR] = { "cas_pair", -1 },
};

const char *method_name(enum method method)
{
	return methods[method].name;
}

int method_cache(enum method method)
{
	return methods[method].cache;
}

static const struct own_cache_kind caches[NR_CACHES] = {
	[CACHE_LODIC] = { "lodic", LODIC_LODIC, "auto" },
	[CACHE_ATOMIC] = { "atomic", LODIC_ATOMIC, "auto" },
	[CACHE_FROZEN] = { "frozen", LODIC_FROZEN, "auto" },
	[CACHE_HAZARD] = { "hazard", LODIC_HAZARD, "lock" },
	[CACHE_LODIC_LOCK] = { "lodic-lock", LODIC_LODIC, "lock" },
	[CACHE_HAZARD_LIGHT] = { "hazard-light", LODIC_HAZARD, "light" },
	[CACHE_LODIC_APART] = { "lodic-apart", LODIC_LODIC, "auto" },
};

const char *method_cache_name(enum method_cache cache)
{
	return caches[cache].name;
}

const struct own_cache_kind *method_cache_kind(enum method_cache cache)
{
	return &caches[cache];
}

/* Stands for what a program does with the bytes, the same in every method. It is the C
 * library's memcpy, with a size that the compiler does not know. */
static inline void method_copy(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
	__asm__ volatile("" : : "r"(to) : "memory"); /* the compiler must not drop it */
}

static inline uint64_t method_offset_at(const struct method_steps *s, uint64_t i)
{
	uint64_t unit = s->units[(s->position + i) & (WORKLOAD_STEPS - 1)];

	return (unit << WORKLOAD_UNIT_SHIFT) & ~(uint64_t)(s->bytes - 1);
}

uint64_t method_offset(const struct method_steps *s, uint64_t i)
{
	return method_offset_at(s, i);
}

/* The loops copy what they need into local variables. Otherwise the compiler would load it
 * again after each call, because the call may have changed all that pointers reach. Each is a
 * function of its own that begins a cache line: what changes in one moves no other. */
#define METHOD_ALONE static __attribute__((noinline, aligned(64))) void

METHOD_ALONE method_run_memory(struct method_ground *g, struct method_steps s,
                              uint64_t nr, const uint8_t *from)
{
	uint8_t *buffer = g->buffer;

	for (uint64_t i = 0; i < nr; i++)
		method_copy(buffer, from + method_offset_at(&s, i), s.bytes);
}

METHOD_ALONE method_run_cas_pair(struct method_ground *g, struct method_steps s,
                                 uint64_t nr)
{
	const uint8_t *from = g->private_bytes;
	uint8_t *buffer = g->buffer;
	uint64_t *word = g->word;
	uint64_t nr_failed = 0;

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t v = host_load_relaxed(word); /* no other thread has the word */

		nr_failed += !host_cas(word, v, v + 1);
		method_copy(buffer, from + method_offset_at(&s, i), s.bytes);
		nr_failed += !host_cas(word, v + 1, v);
	}
	g->nr_failed += nr_failed;
}

METHOD_ALONE method_run_pread(struct method_ground *g, struct method_steps s,
                              uint64_t nr)
{
	uint8_t *buffer = g->buffer;
	uint64_t nr_failed = 0;
	int fd = g->fd;

	for (uint64_t i = 0; i < nr; i++)
		nr_failed += pread(fd, buffer, s.bytes,
		                   (off_t)method_offset_at(&s, i)) != (ssize_t)s.bytes;
	g->nr_failed += nr_failed;
}

/* Each loop is compiled twice: with calls, and with inline.h. */
#define METHOD_LOOP static inline __attribute__((always_inline)) void

METHOD_LOOP method_run_read(struct method_ground *g, struct method_steps s, uint64_t nr,
                            bool inlined)
{
	struct lodic_context *context = g->seats[CACHE_LODIC].context;
	struct lodic_file *file = g->seats[CACHE_LODIC].file;
	uint8_t *buffer = g->buffer;
	uint64_t nr_failed = 0;
	struct lodic_inline in;

	if (inlined)
		lodic_inline_init(&in, context, file);
	for (uint64_t i = 0; i < nr; i++) {
		off_t offset = (off_t)method_offset_at(&s, i);
		ssize_t got =
			inlined ? lodic_read_inline(&in, buffer, s.bytes, offset)
				: lodic_read(context, file, buffer, s.bytes, offset);

		nr_failed += got != (ssize_t)s.bytes;
	}
	g->nr_failed += nr_failed;
}

/* What a program does that gets no view or pin. */
static __attribute__((noinline)) void
method_fall_back(struct method_ground *g, const struct own_cache_seat *seat,
                 uint32_t bytes, off_t offset)
{
	g->nr_fallbacks++;
	g->nr_failed += lodic_read(seat->context, seat->file, g->buffer, bytes,
	                           offset) != (ssize_t)bytes;
}

METHOD_LOOP method_run_view(struct method_ground *g, struct method_steps s, uint64_t nr,
                            bool inlined)
{
	const struct own_cache_seat *seat = &g->seats[CACHE_LODIC];
	struct lodic_context *context = seat->context;
	struct lodic_file *file = seat->file;
	uint8_t *buffer = g->buffer;
	struct lodic_inline in;

	if (inlined)
		lodic_inline_init(&in, context, file);
	for (uint64_t i = 0; i < nr; i++) {
		off_t offset = (off_t)method_offset_at(&s, i);
		struct lodic_view view;
		int err = inlined ? lodic_view_begin_inline(&in, offset, &view)
		                  : lodic_view_begin(context, file, offset, &view);

		if (err == 0) {
			method_copy(buffer, view.data, s.bytes);
			if (inlined ? lodic_view_valid_inline(&in, &view)
			            : lodic_view_valid(context, &view))
				continue;
		}
		method_fall_back(g, seat, s.bytes, offset);
	}
}

METHOD_LOOP method_run_pin(struct method_ground *g, struct method_steps s, uint64_t nr,
                           const struct own_cache_seat *seat, bool inlined)
{
	struct lodic_context *context = seat->context;
	struct lodic_file *file = seat->file;
	uint8_t *buffer = g->buffer;
	struct lodic_inline in;

	if (inlined)
		lodic_inline_init(&in, context, file);
	for (uint64_t i = 0; i < nr; i++) {
		off_t offset = (off_t)method_offset_at(&s, i);
		struct lodic_pin pin;

		if ((inlined ? lodic_pin_inline(&in, offset, &pin)
		             : lodic_pin(context, file, offset, &pin)) != 0) {
			method_fall_back(g, seat, s.bytes, offset);
			continue;
		}
		method_copy(buffer, pin.data, s.bytes);
		if (inlined)
			lodic_unpin_inline(&in, &pin);
		else
			lodic_unpin(context, &pin);
	}
}

METHOD_ALONE method_run_read_called(struct method_ground *g, struct method_steps s,
                                    uint64_t nr)
{
	method_run_read(g, s, nr, false);
}

METHOD_ALONE method_run_read_inline(struct method_ground *g, struct method_steps s,
                                    uint64_t nr)
{
	method_run_read(g, s, nr, true);
}

METHOD_ALONE method_run_view_called(struct method_ground *g, struct method_steps s,
                                    uint64_t nr)
{
	method_run_view(g, s, nr, false);
}

METHOD_ALONE method_run_view_inline(struct method_ground *g, struct method_steps s,
                                    uint64_t nr)
{
	method_run_view(g, s, nr, true);
}

METHOD_ALONE method_run_pin_called(struct method_ground *g, struct method_steps s,
                                   uint64_t nr, const struct own_cache_seat *seat)
{
	method_run_pin(g, s, nr, seat, false);
}

METHOD_ALONE method_run_pin_inline(struct method_ground *g, struct method_steps s,
                                   uint64_t nr)
{
	method_run_pin(g, s, nr, &g->seats[CACHE_LODIC], true);
}

void method_run(enum method method, struct method_ground *g,
                const struct method_steps *s, uint64_t nr)
{
	switch (method) {
	case METHOD_PRIVATE: method_run_memory(g, *s, nr, g->private_bytes); break;
	case METHOD_MMAP: method_run_memory(g, *s, nr, g->mapped_bytes); break;
	case METHOD_LODIC_READ: method_run_read_called(g, *s, nr); break;
	case METHOD_LODIC_READ_INLINE: method_run_read_inline(g, *s, nr); break;
	case METHOD_LODIC_VIEW: method_run_view_called(g, *s, nr); break;
	case METHOD_LODIC_VIEW_INLINE: method_run_view_inline(g, *s, nr); break;
	case METHOD_PREAD: method_run_pread(g, *s, nr); break;
	case METHOD_CAS_PAIR: method_run_cas_pair(g, *s, nr); break;
	case METHOD_LODIC_PIN_INLINE:
		method_run_pin_inline(g, *s, nr);
		break;
	default:
		method_run_pin_called(g, *s, nr, &g->seats[methods[method].cache]);
		break;
	}
}
