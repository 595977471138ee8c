/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Included before all else of a test, it lets the test call the functions of lodic/inline.h
 * under the names of lodic.h. Each thread keeps the struct lodic_inline of its last call. So
 * the next call often finds one that a restart, a writer or a fork has made stale.
 */
#ifndef LODIC_TESTS_SUPPORT_INLINED_H
#define LODIC_TESTS_SUPPORT_INLINED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lodic/inline.h"

static __thread struct lodic_inline inlined_last;

__attribute__((unused)) static struct lodic_inline *
inlined(struct lodic_context *context, struct lodic_file *file)
{
	if (inlined_last.context != context || inlined_last.file != file)
		lodic_inline_init(&inlined_last, context, file);
	return &inlined_last;
}

__attribute__((unused)) static ssize_t inlined_read(struct lodic_context *context,
                                                    struct lodic_file *file,
                                                    void *buffer, size_t n,
                                                    off_t offset)
{
	return lodic_read_inline(inlined(context, file), buffer, n, offset);
}

__attribute__((unused)) static int inlined_pin(struct lodic_context *context,
                                               struct lodic_file *file, off_t offset,
                                               struct lodic_pin *ret_pin)
{
	return lodic_pin_inline(inlined(context, file), offset, ret_pin);
}

__attribute__((unused)) static void inlined_unpin(struct lodic_context *context,
                                                  struct lodic_pin *pin)
{
	if (inlined_last.context == context)
		lodic_unpin_inline(&inlined_last, pin);
	else
		lodic_unpin(context, pin);
}

__attribute__((unused)) static int inlined_view_begin(struct lodic_context *context,
                                                      struct lodic_file *file,
                                                      off_t offset,
                                                      struct lodic_view *ret_view)
{
	return lodic_view_begin_inline(inlined(context, file), offset, ret_view);
}

__attribute__((unused)) static int inlined_view_valid(struct lodic_context *context,
                                                      const struct lodic_view *view)
{
	return inlined_last.context == context
	               ? lodic_view_valid_inline(&inlined_last, view)
	               : lodic_view_valid(context, view);
}

/* What is closed may leave its address to another. */
__attribute__((unused)) static void inlined_close(struct lodic_file *file)
{
	inlined_last = (struct lodic_inline){ 0 };
	lodic_close(file);
}

__attribute__((unused)) static void inlined_context_close(struct lodic_context *context)
{
	inlined_last = (struct lodic_inline){ 0 };
	lodic_context_close(context);
}

#define lodic_read(...) inlined_read(__VA_ARGS__)
#define lodic_pin(...) inlined_pin(__VA_ARGS__)
#define lodic_unpin(...) inlined_unpin(__VA_ARGS__)
#define lodic_view_begin(...) inlined_view_begin(__VA_ARGS__)
#define lodic_view_valid(...) inlined_view_valid(__VA_ARGS__)
#define lodic_close(...) inlined_close(__VA_ARGS__)
#define lodic_context_close(...) inlined_context_close(__VA_ARGS__)

#endif
