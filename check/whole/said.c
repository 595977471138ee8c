/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See said.h. */
#include "check/whole/said.h"

#include <errno.h>

#include "lodic/reason.h"

/* More than all scenarios hold. A sum that went below zero is far above it. */
#define MOST_BYTES ((u64)1 << 40)
/* No run takes as long. */
#define LONGEST_NS ((u64)1 << 50)

/* NONE: lodic.h names several. */
static enum lodic_reason pin_reason(int err)
{
	switch (err) {
	case -ENODATA: return LODIC_REASON_PAST_END;
	case -EINVAL: return LODIC_REASON_ARGUMENT;
	case -EAGAIN: return LODIC_REASON_NOT_HERE_YET;
	case -EDQUOT: return LODIC_REASON_QUOTA;
	case -EOVERFLOW: return LODIC_REASON_PIN_COUNT;
	case -ECHILD: return LODIC_REASON_FORKED;
	default: return LODIC_REASON_NONE;
	}
}

void said_pin(int err)
{
	enum lodic_reason reason = pin_reason(err);

	if (err == 0 || err == -ESTALE || err == -ENOBUFS)
		return;
	if (reason == LODIC_REASON_NONE)
		machine_fail("lodic_pin() fails with %d", err);
	/* Without memory for it a thread has no note of its reasons. */
	if (lodic_reason(err) != reason && machine.nr_failed[CALL_ALLOC] == 0 &&
	    machine.nr_failed[CALL_WORD_SET] == 0)
		machine_fail("lodic_pin() fails with %d, and its reason is %s", err,
		             lodic_reason_name(lodic_reason(err)));
}

void said_ready(int ready)
{
	if (ready > 1)
		machine_fail("lodic_hold_ready() returns %d", ready);
}

void said_look(int err)
{
	if (err == -EPROTO)
		machine_fail("the service has not answered an administrator as it should");
}

void said_tier(const struct look_tier *tier)
{
	if (tier->free_frames > tier->frames || tier->hold_bytes > MOST_BYTES ||
	    tier->holds > MOST_BYTES)
		machine_fail("a tier of %llu frames has %llu that are free, and %llu holds",
		             (unsigned long long)tier->frames,
		             (unsigned long long)tier->free_frames,
		             (unsigned long long)tier->holds);
}

void said_times(const struct look_times *times)
{
	u64 least = 0, most = 0;

	for (u32 i = 0; i < LOOK_TIME_BUCKETS; i++) {
		bool last = i == LOOK_TIME_BUCKETS - 1;

		least += i == 0 ? 0 : times->nr[i] * (((u64)1000 << (i - 1)) + 1);
		most += times->nr[i] * (last ? LONGEST_NS : (u64)1000 << i);
	}
	if (times->sum_ns < least || times->sum_ns > most)
		machine_fail("times of kind %u are %llu ns in all; their buckets have from "
		             "%llu to %llu ns",
		             times->kind, (unsigned long long)times->sum_ns,
		             (unsigned long long)least, (unsigned long long)most);
}

void said_cached(int why)
{
	/* A program would take it for its own limit. */
	if (why > 0 || why == -EMFILE)
		machine_fail("lodic_file_cached() returns %d", why);
}

void said_file(const struct look_file *file)
{
	bool held = file->state == LOOK_HELD;

	if ((look_file_why(file)[0] == '\0') != held || (file->reason == 0) != held ||
	    file->held > MOST_BYTES)
		machine_fail("a file has state %u, reason %d, why \"%s\", and %llu bytes in holds",
		             file->state, file->reason, look_file_why(file),
		             (unsigned long long)file->held);
}

void said_resize(const struct look_resize *resize)
{
	bool failed = resize->state == LOOK_RESIZE_FAILED;

	if ((resize->error < 0) != failed || (resize->why[0] != '\0') != failed ||
	    resize->taken > resize->had)
		machine_fail("a resize has state %u, error %d, why \"%s\", and %llu of %llu blocks",
		             resize->state, resize->error, resize->why,
		             (unsigned long long)resize->taken,
		             (unsigned long long)resize->had);
}

void said_few_files(int why)
{
	said_cached(why);
	if (why == -ENFILE && lodic_reason(why) == LODIC_REASON_FILES)
		machine_fail("the service has room for more files, and says that it has not");
}
