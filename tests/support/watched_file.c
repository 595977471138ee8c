/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: watched_file.h. */
#define _GNU_SOURCE
#include "tests/support/watched_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_EPOCH (~(u64)0)
#define MOST_COMPLAINTS 10u
#define READ_BYTES (2 * LODIC_BLOCK_BYTES)

const char *const watched_change_names[NR_CHANGES] = { "overwrite", "truncate",
	                                               "rename",    "extend",
	                                               "mmap",      "punch" };

static u64 stamp_of(u64 phase)
{
	return phase / 4;
}

static void phase_set(struct watched_file *w, enum watched_phase phase)
{
	u64 stamp = stamp_of(host_load_relaxed(&w->phase)) + (phase == WATCHED_QUIET);

	/* A watcher that sees the phase sees what was done before it. A watcher that sees
	 * what is done next sees the phase. */
	host_store_release(&w->phase, stamp * 4 + phase);
	host_fence_full();
}

/* The file's bytes [from, to) are now of this version. */
static void shadow_fill(struct watched_file *w, u64 version, u64 from, u64 to)
{
	pattern_fill(w->shadow + from, w->number, version, from, to - from);
}

/* Blocks that lie wholly in [from, to), as far as the file reaches, are now of version. */
static void floor_raise(struct watched_file *w, u64 version, u64 from, u64 to)
{
	u64 block = (from + LODIC_BLOCK_BYTES - 1) / LODIC_BLOCK_BYTES;

	for (; block * LODIC_BLOCK_BYTES < to; block++)
		if ((block + 1) * LODIC_BLOCK_BYTES <= to || to == w->bytes)
			host_store_release(&w->floor[block], version);
}

/* Sizes and places are multiples of a word. */
static u64 random_words(u64 *random, u64 least, u64 most)
{
	return (least + random_below(random, most - least + 1)) & ~(u64)7;
}

static void write_fully(int fd, const void *bytes, u64 n, u64 at)
{
	REQUIRE(pwrite(fd, bytes, n, (off_t)at) == (ssize_t)n, "%s", strerror(errno));
}

struct change {
	struct watched_file *w;
	u64 version;
	u64 *random;
	u64 looks; /* by each watcher while the file is open for writing */
};

static void change_opened(const struct change *c)
{
	struct watched_file *w = c->w;
	u64 before[WATCHED_MAX_WATCHERS];

	phase_set(w, WATCHED_OPEN);
	for (u32 i = 0; i < w->nr_watchers; i++)
		before[i] = host_load_acquire(&w->seen_open[i]);
	for (u32 i = 0; c->looks > 0 && i < w->nr_watchers; i++)
		REQUIRE(WAIT_UNTIL(host_load_acquire(&w->seen_open[i]) >=
		                   before[i] + c->looks),
		        "watcher %u hangs", i);
}

static void change_overwrite(const struct change *c)
{
	struct watched_file *w = c->w;
	u64 from = random_words(c->random, 0, w->bytes - 8);
	u64 to = random_words(c->random, from + 8, w->bytes);
	int fd = fixture_open(w->path, O_WRONLY);

	if (random_below(c->random, 2) == 0) {
		from = 0;
		to = w->bytes;
	}
	change_opened(c);
	shadow_fill(w, c->version, from, to);
	write_fully(fd, w->shadow + from, to - from, from);
	floor_raise(w, c->version, from, to);
	phase_set(w, WATCHED_CLOSING);
	close(fd);
}

static void change_truncate(const struct change *c)
{
	struct watched_file *w = c->w;
	u64 bytes = random_words(c->random, 8, w->bytes);
	u64 way = random_below(c->random, 3);
	int fd;

	if (way == 0) {
		REQUIRE(truncate(w->path, (off_t)bytes) == 0, "%s", strerror(errno));
		w->bytes = bytes;
		return;
	}
	fd = fixture_open(w->path, way == 1 ? O_WRONLY : O_WRONLY | O_TRUNC);
	change_opened(c);
	if (way == 1) {
		REQUIRE(ftruncate(fd, (off_t)bytes) == 0, "%s", strerror(errno));
		w->bytes = bytes;
	} else {
		w->bytes =
			random_words(c->random, LODIC_BLOCK_BYTES, WATCHED_MAX_BYTES);
		shadow_fill(w, c->version, 0, w->bytes);
		write_fully(fd, w->shadow, w->bytes, 0);
		floor_raise(w, c->version, 0, w->bytes);
	}
	phase_set(w, WATCHED_CLOSING);
	close(fd);
}

static void file_write_new(const char *path, const void *bytes, u64 n)
{
	int fd = fixture_open(path, O_WRONLY | O_CREAT | O_EXCL);

	write_fully(fd, bytes, n, 0);
	close(fd);
}

static void change_rename(const struct change *c)
{
	struct watched_file *w = c->w;
	char path[FIXTURE_PATH_BYTES + 4];

	snprintf(path, sizeof(path), "%s.new", w->path);
	w->bytes = random_words(c->random, LODIC_BLOCK_BYTES, WATCHED_MAX_BYTES);
	shadow_fill(w, c->version, 0, w->bytes);
	file_write_new(path, w->shadow, w->bytes);
	REQUIRE(rename(path, w->path) == 0, "%s", strerror(errno));
	/* The epoch before the floor: a watcher that sees the floor opens the name again. */
	host_store_release(&w->epoch, w->epoch + 1);
	floor_raise(w, c->version, 0, w->bytes);
}

static void change_extend(const struct change *c)
{
	struct watched_file *w = c->w;
	u64 from = w->bytes;
	u64 to = random_words(c->random, from + 8, WATCHED_MAX_BYTES);
	int fd = fixture_open(w->path, O_WRONLY | O_APPEND);

	change_opened(c);
	w->bytes = to;
	if (random_below(c->random, 4) == 0) {
		memset(w->shadow + from, 0, to - from);
		REQUIRE(ftruncate(fd, (off_t)to) == 0, "%s", strerror(errno));
	} else {
		shadow_fill(w, c->version, from, to);
		REQUIRE(write(fd, w->shadow + from, to - from) == (ssize_t)(to - from),
		        "%s", strerror(errno));
		floor_raise(w, c->version, from, to);
	}
	phase_set(w, WATCHED_CLOSING);
	close(fd);
}

static void change_mmap(const struct change *c)
{
	struct watched_file *w = c->w;
	u64 from = random_words(c->random, 0, w->bytes - 8);
	u64 to = random_words(c->random, from + 8, w->bytes);
	int fd = fixture_open(w->path, O_RDWR);
	u8 *p = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	REQUIRE(p != MAP_FAILED, "%s", strerror(errno));
	close(fd); /* the mapping alone keeps it open for writing */
	change_opened(c);
	shadow_fill(w, c->version, from, to);
	memcpy(p + from, w->shadow + from, to - from);
	floor_raise(w, c->version, from, to);
	phase_set(w, WATCHED_CLOSING);
	munmap(p, w->bytes);
}

static void change_punch(const struct change *c)
{
	struct watched_file *w = c->w;
	u64 from = random_words(c->random, 0, w->bytes - 8);
	u64 to = random_words(c->random, from + 8, w->bytes);
	int fd = fixture_open(w->path, O_WRONLY);

	change_opened(c);
	memset(w->shadow + from, 0, to - from);
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
	              (off_t)(to - from)) != 0)
		write_fully(fd, w->shadow + from, to - from, from);
	phase_set(w, WATCHED_CLOSING);
	close(fd);
}

void watched_file_change(struct watched_file *w, enum watched_change change, u64 looks,
                         u64 *random)
{
	static void (*const ways[NR_CHANGES])(const struct change *c) = {
		change_overwrite, change_truncate, change_rename,
		change_extend,    change_mmap,     change_punch,
	};
	const struct change c = { w, stamp_of(w->phase) + 1, random, looks };
	const struct change grow = { w, stamp_of(w->phase) + 1, random, 0 };

	phase_set(w, WATCHED_OPENING);
	/* Room to grow into, or something to cut off. */
	if ((change == CHANGE_EXTEND && w->bytes + 8 > WATCHED_MAX_BYTES) ||
	    w->bytes < 16) {
		change_rename(&grow);
		if (w->bytes + 8 > WATCHED_MAX_BYTES)
			change_truncate(&grow);
		phase_set(w, WATCHED_OPENING);
	}
	ways[change](&c);
	phase_set(w, WATCHED_QUIET);
}

void watched_file_init(struct watched_file *w, u64 number, u32 nr_watchers, u64 *random)
{
	char name[32];

	w->number = number;
	w->nr_watchers = nr_watchers;
	snprintf(name, sizeof(name), "watched%u", (unsigned int)number);
	fixture_path(w->path, name);
	w->phase = 1 * 4 + WATCHED_QUIET;
	w->bytes = random_words(random, LODIC_BLOCK_BYTES, WATCHED_MAX_BYTES);
	shadow_fill(w, 1, 0, w->bytes);
	floor_raise(w, 1, 0, w->bytes);
	file_write_new(w->path, w->shadow, w->bytes);
}

bool watched_file_is_hot(const struct watched_file *w, u32 hits)
{
	for (u32 i = 0; i < w->nr_watchers; i++) {
		u64 heat = host_load_acquire(&w->heat[i]);

		if (heat >> 32 != stamp_of(w->phase) || (u32)heat < hits)
			return false;
	}
	return true;
}

/* What a watcher knows before and after a read or pin. */
struct look {
	struct watched_file *w;
	u32 file;
	u64 before, after; /* phases */
	u64 floor[WATCHED_MAX_BLOCKS];
	u64 hits;
	u64 offset, n;
};

static u64 hits_of(const struct watcher *watcher)
{
	struct lodic_context_stat stat;

	lodic_context_stat(watcher->context, &stat, sizeof(stat));
	return stat.hits;
}

static bool look_is(const struct look *look, enum watched_phase phase)
{
	return look->before == look->after && look->before % 4 == phase;
}

static void complain(struct watcher *watcher, const struct look *look, const char *what,
                     u64 detail)
{
	if (watcher->tally->wrong++ < MOST_COMPLAINTS)
		fprintf(stderr,
		        "watcher %u: %s: file %u offset %llu bytes %llu: %llx "
		        "(phase %llu.%u then %llu.%u, hits %llu)\n",
		        watcher->number, what, look->file,
		        (unsigned long long)look->offset, (unsigned long long)look->n,
		        (unsigned long long)detail,
		        (unsigned long long)stamp_of(look->before),
		        (unsigned int)(look->before % 4),
		        (unsigned long long)stamp_of(look->after),
		        (unsigned int)(look->after % 4),
		        (unsigned long long)(hits_of(watcher) - look->hits));
}

/* For phases that differ, or while a writer has the file: no word may be too old. */
static void check_words(struct watcher *watcher, const struct look *look,
                        const void *bytes, u64 n)
{
	u64 newest = stamp_of(host_load_acquire(&look->w->phase)) + 1;
	u64 at, word;

	for (at = 0; at + 8 <= n; at += 8) {
		u64 offset = look->offset + at;

		memcpy(&word, (const u8 *)bytes + at, 8);
		if (word == 0)
			continue; /* a hole */
		if (PATTERN_VERSION(word) > newest ||
		    word != pattern_word(look->w->number, PATTERN_VERSION(word),
		                         offset / 8)) {
			complain(watcher, look, "a word that was never there", word);
			return;
		}
		if (PATTERN_VERSION(word) < look->floor[offset / LODIC_BLOCK_BYTES]) {
			complain(watcher, look, "an old word", word);
			return;
		}
	}
}

/* bytes is what the watcher has read or pinned; expected is how many there should be. */
static void look_check(struct watcher *watcher, struct look *look, const void *bytes,
                       u64 n, u64 expected)
{
	struct watched_file *w = look->w;
	u64 heat, stamp = stamp_of(look->before);
	bool same = n == expected && memcmp(bytes, w->shadow + look->offset, n) == 0;
	bool hit = hits_of(watcher) > look->hits;

	host_fence_acquire(); /* the shadow's bytes before the phase */
	look->after = host_load_relaxed(&w->phase);
	watcher->tally->hits += hit;
	if (look_is(look, WATCHED_QUIET)) {
		watcher->tally->exact++;
		if (!same)
			complain(watcher, look, "not what the file holds", n);
		heat = host_load_relaxed(&w->heat[watcher->number]);
		heat = heat >> 32 == stamp ? heat : stamp << 32;
		if (hit)
			host_store_release(&w->heat[watcher->number], heat + 1);
		return;
	}
	if (look_is(look, WATCHED_OPEN)) {
		watcher->tally->open++;
		host_store_release(&w->seen_open[watcher->number],
		                   w->seen_open[watcher->number] + 1);
		if (hit)
			complain(watcher, look, "cached while a writer has it open", n);
	} else {
		watcher->tally->raced++;
	}
	check_words(watcher, look, bytes, n);
}

static u64 bytes_left(const struct watched_file *w, u64 offset, u64 most)
{
	u64 bytes = host_load_relaxed(&w->bytes);

	if (offset >= bytes)
		return 0;
	return bytes - offset < most ? bytes - offset : most;
}

static void watcher_read(struct watcher *watcher, struct look *look)
{
	u8 buffer[READ_BYTES];
	ssize_t got;

	look->offset =
		random_words(&watcher->random, 0, WATCHED_MAX_BYTES - READ_BYTES);
	look->n = random_words(&watcher->random, 8, READ_BYTES);
	if (random_below(&watcher->random, 4) > 0) {
		look->offset -= look->offset % LODIC_BLOCK_BYTES;
		look->n = LODIC_BLOCK_BYTES;
	}
	got = lodic_read(watcher->context, watcher->files[look->file], buffer, look->n,
	                 (off_t)look->offset);
	watcher->tally->reads++;
	if (got < 0)
		complain(watcher, look, strerror((int)-got), 0);
	else
		look_check(watcher, look, buffer, (u64)got,
		           bytes_left(look->w, look->offset, look->n));
}

static void watcher_view(struct watcher *watcher, struct look *look)
{
	u8 copy[LODIC_BLOCK_BYTES];
	struct lodic_view view;

	look->offset = random_words(&watcher->random, 0, WATCHED_MAX_BYTES - 8);
	look->n = LODIC_BLOCK_BYTES - look->offset % LODIC_BLOCK_BYTES;
	if (lodic_view_begin(watcher->context, watcher->files[look->file],
	                     (off_t)look->offset, &view) != 0)
		return;
	memcpy(copy, view.data, view.bytes);
	if (!lodic_view_valid(watcher->context, &view))
		return;
	watcher->tally->views++;
	look_check(watcher, look, copy, view.bytes,
	           bytes_left(look->w, look->offset, look->n));
}

static void watcher_pin(struct watcher *watcher, struct look *look,
                        struct watcher_pin *pin)
{
	struct lodic_file *file = watcher->files[look->file];
	bool past_end;
	int err;

	look->offset = random_words(&watcher->random, 0, WATCHED_MAX_BYTES - 8);
	look->n = LODIC_BLOCK_BYTES - look->offset % LODIC_BLOCK_BYTES;
	err = lodic_pin(watcher->context, file, (off_t)look->offset, &pin->pin);
	if (err == 0) {
		watcher->tally->pins++;
		pin->file = look->file;
		pin->stamp = look->before;
		memcpy(pin->copy, pin->pin.data, pin->pin.bytes);
		look_check(watcher, look, pin->copy, pin->pin.bytes,
		           bytes_left(look->w, look->offset, look->n));
		return;
	}
	pin->pin.word = NULL;
	past_end = look->offset >= host_load_relaxed(&look->w->bytes);
	host_fence_acquire();
	look->after = host_load_relaxed(&look->w->phase);
	/* The block or the file is not cached, or too many others are pinned. */
	if (look_is(look, WATCHED_QUIET) &&
	    (past_end ? err != -ENODATA
	              : err != -EAGAIN && err != -ESTALE && err != -ENOBUFS &&
	                        err != -EDQUOT))
		complain(watcher, look, "a pin's error", (u64)-err);
	/* Reads find out when no pin ever succeeds again. */
}

static void watcher_unpin(struct watcher *watcher, struct watcher_pin *pin)
{
	struct look look = { .w = &watcher->watched[pin->file], .file = pin->file };

	look.before = pin->stamp;
	look.after = host_load_relaxed(&look.w->phase);
	look.hits = hits_of(watcher);
	if (memcmp(pin->copy, pin->pin.data, pin->pin.bytes) != 0)
		complain(watcher, &look, "a pinned block changed", 0);
	else if (stamp_of(look.before) != stamp_of(look.after))
		watcher->tally->snapshots++;
	lodic_unpin(watcher->context, &pin->pin);
}

/* What a client can do to the descriptor that it has passed to the service. */
static void watcher_meddle(struct watcher *watcher, int fd)
{
	struct flock lock = { .l_type = F_RDLCK };

	switch (random_below(&watcher->random, 4)) {
	case 0: fcntl(fd, F_SETLEASE, F_UNLCK); break;
	case 1:
		/* Its own lease makes writers wait until it gives the lease back. */
		fcntl(fd, F_SETSIG, SIGURG); /* ignored */
		fcntl(fd, F_SETLEASE, F_RDLCK);
		fcntl(fd, F_SETLEASE, F_UNLCK);
		break;
	case 2:
		flock(fd, LOCK_SH | LOCK_NB);
		flock(fd, LOCK_UN);
		break;
	default:
		fcntl(fd, F_OFD_SETLK, &lock);
		lock.l_type = F_UNLCK;
		fcntl(fd, F_OFD_SETLK, &lock);
	}
}

static void watcher_reopen(struct watcher *watcher, u32 i)
{
	struct watched_file *w = &watcher->watched[i];
	u64 epoch = host_load_acquire(&w->epoch);
	int err;

	if (watcher->epochs[i] == epoch)
		return;
	if (watcher->epochs[i] != NO_EPOCH) {
		lodic_close(watcher->files[i]);
		close(watcher->fds[i]);
	}
	watcher->epochs[i] = epoch;
	watcher->fds[i] = fixture_open(w->path, O_RDONLY);
	err = lodic_open(watcher->lodic, watcher->fds[i], &watcher->files[i]);
	REQUIRE(err == 0, "%s", strerror(-err));
}

void watcher_begin(struct watcher *watcher)
{
	int err = lodic_context_open(watcher->lodic, &watcher->context);

	REQUIRE(err == 0, "%s", strerror(-err));
	watcher->random = random_stream(1000 + watcher->number);
	for (u32 i = 0; i < watcher->nr_files; i++) {
		watcher->epochs[i] = NO_EPOCH;
		watcher_reopen(watcher, i);
	}
}

void watcher_step(struct watcher *watcher)
{
	u32 file = (u32)random_below(&watcher->random, watcher->nr_files);
	struct look look = { .w = &watcher->watched[file], .file = file };
	u64 what = random_below(&watcher->random, 16);
	struct watcher_pin *pin =
		&watcher->pins[random_below(&watcher->random, WATCHER_PINS)];

	/* Phase, then floor, then epoch: see change_rename(). */
	look.before = host_load_acquire(&look.w->phase);
	for (u32 i = 0; i < WATCHED_MAX_BLOCKS; i++)
		look.floor[i] = host_load_acquire(&look.w->floor[i]);
	watcher_reopen(watcher, file);
	look.hits = hits_of(watcher);
	if (what == 0 && watcher->meddles)
		watcher_meddle(watcher, watcher->fds[file]);
	else if (what < 3)
		watcher_view(watcher, &look);
	else if (what < 9)
		watcher_read(watcher, &look);
	else if (!pin->pin.word)
		watcher_pin(watcher, &look, pin);
	else if (what == 15)
		watcher_unpin(watcher, pin);
	host_store_release(&watcher->tally->progress, watcher->tally->progress + 1);
}

void watcher_end(struct watcher *watcher)
{
	for (u32 i = 0; i < WATCHER_PINS; i++)
		if (watcher->pins[i].pin.word)
			watcher_unpin(watcher, &watcher->pins[i]);
	for (u32 i = 0; i < watcher->nr_files; i++) {
		lodic_close(watcher->files[i]);
		close(watcher->fds[i]);
	}
	lodic_context_close(watcher->context);
}
