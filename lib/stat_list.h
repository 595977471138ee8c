/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The numbers of struct lodic_stat, one row each, in the order of `lodic stat`:
 *
 *	STAT(field, kind, meaning)
 *
 * kind     COUNTER only grows. NUMBER is a state. YES_NO is 1 or 0. SCHEME is an enum lodic_scheme.
 * meaning  For people, and for the metrics.
 *
 * `lodic stat`, its JSON, the metrics of `lodic serve --metrics`, and stat() of Python are made of
 * these rows. There is no guard, because the includer says what a row means.
 */
STAT(frames, NUMBER, "blocks the cache can hold")
STAT(cached, NUMBER, "blocks it holds now")
STAT(pinned, NUMBER, "blocks pinned now")
STAT(admitted, COUNTER, "blocks brought in since the start")
STAT(evicted, COUNTER, "blocks thrown out to make room")
STAT(evictions_refused, COUNTER, "evictions that met a pin")
STAT(errors, COUNTER, "reads of a file that failed")
STAT(files, NUMBER, "files held under a proof")
STAT(direct_io, NUMBER, "of these, files read with O_DIRECT")
STAT(revoked, COUNTER, "files given up for a writer")
STAT(clients, NUMBER, "processes connected")
STAT(contexts, NUMBER, "contexts open")
STAT(reaped, COUNTER, "contexts taken back from dead processes")
STAT(hits, COUNTER, "blocks read or pinned from the cache")
STAT(soft_misses, COUNTER, "of these, pins that set an entry first")
STAT(misses, COUNTER, "blocks read from the kernel")
STAT(retries, COUNTER, "copies thrown away")
STAT(pins_refused, COUNTER, "pins refused: count or set full, or no table")
STAT(control_bytes, NUMBER, "bytes of shared tables")
STAT(data_bytes, NUMBER, "bytes of frames")
STAT(count_bytes, NUMBER, "bytes of shared counters")
STAT(context_bytes, NUMBER, "bytes of one context")
STAT(service_pid, NUMBER, "process id of the service")
STAT(uptime_ns, NUMBER, "nanoseconds since it started")
STAT(scheme, SCHEME, "how pins are counted")
STAT(entries, NUMBER, "entries in a context's table")
STAT(light_pins, YES_NO, "is a pin a plain store?")
STAT(io_uring, YES_NO, "does the service fill blocks by io_uring?")
STAT(huge_bytes, NUMBER, "of the bytes of frames, those in huge pages")
STAT(holds, NUMBER, "ranges in memory of their own")
STAT(hold_limit, NUMBER, "bytes that holds may have")
STAT(hold_bytes, NUMBER, "bytes that they have")
STAT(hold_used_bytes, NUMBER, "of these, bytes that a program may have")
STAT(hold_huge_bytes, NUMBER, "bytes of holds in huge pages")
STAT(holds_given, COUNTER, "times that a hold was given to a program")
STAT(holds_read, COUNTER, "ranges read from files")
STAT(holds_failed, COUNTER, "ranges that could not be read, or changed")
STAT(memory_limit, NUMBER, "bytes that frames and holds may have together")
