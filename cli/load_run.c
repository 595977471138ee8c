/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Contract: cli/load_run.h. A file's blocks are asked for in pieces. So the command sees how far
 * the service is, and Ctrl-C need not wait for a large file. Small files are asked for together,
 * because to wait for each one would take longer than to read it.
 */
#define _GNU_SOURCE
#include "cli/load_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/text.h"

/* Asked for at once, and waited for. Our choice: 20 ms of a fast disk, and 80 of a slow one. */
#define PIECE_BYTES (UINT64_C(8) << 20)
#define HOLD_LOOK_MS 100
#define NS_PER_S 1000000000.0
#define PERCENT 100u
/* Earlier than that a rate says nothing. */
#define LEAST_RATE_S 0.2

static void run_show(const struct load_run *run)
{
	double s = (double)(cli_now_ns() - run->begun_ns) / NS_PER_S;
	double rate = s > LEAST_RATE_S ? (double)run->asked / s : 0;
	uint64_t total = run->list->bytes;
	uint64_t left = total > run->asked ? total - run->asked : 0;
	char line[160];
	int n = snprintf(line, sizeof(line), "loading %s of %s",
	                 text_bytes(run->asked).s, text_bytes(total).s);

	if (rate > 0)
		snprintf(line + n, sizeof(line) - (size_t)n, ", %s/s, %.0f s left",
		         text_bytes((uint64_t)rate).s, (double)left / rate);
	cli_progress(line, total > run->asked
	                           ? (unsigned int)(PERCENT * run->asked / total)
	                           : PERCENT);
}

static void run_close_pending(struct load_run *run)
{
	while (run->nr_pending > 0)
		lodic_close(run->pending[--run->nr_pending]);
	run->pending_bytes = 0;
}

/* Waits for all that was asked for. It asks once more for bytes at offset, which costs nothing. */
static int run_settle(struct load_run *run, struct lodic_file *file)
{
	int err = lodic_prefetch(run->context, file, 0, 1, LODIC_WAIT);

	run_close_pending(run);
	run_show(run);
	return err == -ESTALE
	               ? 0
	               : err; /* that file is lost; the look at the end says so */
}

/* The service does not cache the file any more. */
static int run_lost(struct load_file *f, const struct lodic_file *file, int err)
{
	if (err != -ESTALE)
		return err;
	err = lodic_file_cached(file);
	f->state = LOAD_REFUSED;
	f->error = err ? -err : ESTALE;
	return 0;
}

/* Asks for the blocks. The file is closed here, or later. */
static int run_blocks(struct load_run *run, struct load_file *f,
                      struct lodic_file *file)
{
	uint64_t most = f->size < run->room ? f->size : run->room, at = 0, n;
	int err = 0;

	f->state = most < f->size ? LOAD_PART : LOAD_DONE;
	while (!err && at < most && !cli_stopped) {
		n = most - at < PIECE_BYTES ? most - at : PIECE_BYTES;
		err = lodic_prefetch(run->context, file, (off_t)at, n, 0);
		if (err)
			break;
		at += n;
		run->asked += n;
		run->pending_bytes += n;
		if (run->pending_bytes >= PIECE_BYTES)
			err = run_settle(run, file);
	}
	n = (at + LODIC_BLOCK_BYTES - 1) / LODIC_BLOCK_BYTES * LODIC_BLOCK_BYTES;
	run->room -= n < run->room ? n : run->room;
	if (err || run->pending_bytes == 0) {
		err = run_lost(f, file, err);
		lodic_close(file);
		return err;
	}
	run->pending[run->nr_pending++] = file;
	if (run->nr_pending == LOAD_PENDING)
		err = run_settle(run, file);
	return err;
}

static void run_hold(struct load_run *run, struct load_file *f, struct lodic_file *file)
{
	struct pollfd wait = { .events = POLLIN };
	struct lodic_hold *hold;
	int state = lodic_hold(run->lodic, file, 0, 0, 0, &hold);

	if (state) {
		f->state = LOAD_REFUSED;
		f->error = -state;
		return;
	}
	while ((state = lodic_hold_ready(hold)) == 0 && !cli_stopped) {
		wait.fd = lodic_hold_event(hold);
		poll(&wait, wait.fd >= 0, HOLD_LOOK_MS);
		run_show(run);
	}
	lodic_release(hold);
	f->state = state > 0 ? LOAD_DONE : state ? LOAD_REFUSED : LOAD_NEW;
	f->error = state < 0 ? -state : 0;
	run->asked += state > 0 ? f->size : 0;
	run_show(run);
}

static int run_file(struct load_run *run, struct load_file *f)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct lodic_file *file;
	int err = fd < 0 ? -errno : lodic_open(run->lodic, fd, &file);

	if (fd >= 0)
		close(fd);
	if (err) {
		f->state = LOAD_FAILED;
		f->error = -err;
		return 0;
	}
	err = lodic_file_cached(file);
	if (err == -ENODATA) {
		f->state = LOAD_DONE; /* it is empty */
	} else if (err) {
		f->state = LOAD_REFUSED;
		f->error = -err;
	} else if ((err = look_keep(run->look, f->dev, f->ino)) && err != -ENOENT) {
		lodic_close(file);
		return err;
	} else if (run->hold && f->size >= LOAD_HOLD_LEAST) {
		run_hold(run, f, file);
	} else {
		return run_blocks(run, f, file);
	}
	lodic_close(file);
	return 0;
}

int load_run(struct load_run *run)
{
	struct load_list *list = run->list;
	int err = 0;

	if (!run->begun_ns)
		run->begun_ns = cli_now_ns();
	for (size_t i = 0; !err && i < list->nr && !cli_stopped; i++)
		if (list->files[i].state == LOAD_NEW)
			err = run_file(run, &list->files[i]);
	if (!err && run->nr_pending > 0 && !cli_stopped)
		err = run_settle(run, run->pending[run->nr_pending - 1]);
	run_close_pending(run);
	cli_progress("", PERCENT + 1);
	return err ? err : cli_stopped ? -EINTR : 0;
}
