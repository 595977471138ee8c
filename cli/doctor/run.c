/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Runs a program with the shim that only counts, or watches one that runs. The doctor takes its
 * own signals one by one and hands on to the program those that somebody has sent. A Ctrl-C goes to
 * both, and the doctor then reports when the program has ended.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/doctor/proc.h"
#include "cli/doctor/run.h"
#include "cli/preload.h"
#include "preload/map_environment.h"
#include "preload/run_environment.h"

#define NS_PER_MS UINT64_C(1000000)
/* How long the doctor leaves the processes alone between two looks at their mappings. */
#define FIRST_LOOK_MS 20u
#define LAST_LOOK_MS 2000u
#define LOOKED_AT 16u /* processes */
#define WATCH_STEP_MS 100u

static const int handed_on[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };

/* ---- the counts ---- */

/* A copy, because a look at a hole of the file would take memory for it. Most of it is holes. */
static struct seen_process *counts_copy(int fd)
{
	off_t from, to = 0;
	struct seen_process *p =
		mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	while ((from = lseek(fd, to, SEEK_DATA)) >= 0 && (size_t)from < sizeof(*p)) {
		to = lseek(fd, from, SEEK_HOLE);
		if (to <= from || (size_t)to > sizeof(*p) ||
		    pread(fd, (char *)p + from, (size_t)(to - from), from) < 0)
			break;
	}
	return p;
}

struct seen_process *doctor_counts_map(const char *folder, const char *name)
{
	char path[2 * DOCTOR_FOLDER_BYTES + NAME_MAX];
	struct seen_process *p = NULL;
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	/* In its own folder another user may have put anything. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size == sizeof(*p))
		p = counts_copy(fd);
	if (fd >= 0)
		close(fd);
	return p;
}

struct doctor_file *doctor_file_of(struct doctor *d, uint64_t dev, uint64_t ino,
                                   const char *path)
{
	struct doctor_file *f;

	for (size_t i = 0; i < d->nr_files; i++)
		if (d->files[i].dev == dev && d->files[i].ino == ino)
			return &d->files[i];
	f = reallocarray(d->files, d->nr_files + 1, sizeof(*f));
	if (!f)
		return NULL;
	d->files = f;
	f += d->nr_files++;
	*f = (struct doctor_file){ .dev = dev, .ino = ino };
	snprintf(f->path, sizeof(f->path), "%.*s", (int)sizeof(f->path) - 1, path);
	return f;
}

static void add_counts(struct doctor_counts *to, const struct seen *seen)
{
	for (unsigned int s = 0; s < SEEN_STRIPES; s++) {
		const struct seen_counts *c = &seen->counts[s];

		for (unsigned int i = 0; i < RUN_NR_WHYS; i++) {
			to->reads[i] += c->reads[i];
			to->bytes[i] += c->bytes[i];
		}
		for (unsigned int i = 0; i < SEEN_SIZES; i++) {
			to->size_reads[i] += c->size_reads[i];
			to->size_bytes[i] += c->size_bytes[i];
		}
		to->in_order_bytes += c->in_order_bytes;
		to->askew_reads += c->askew_reads;
	}
}

void doctor_add_times(uint64_t (*to)[SEEN_TIMES], const struct seen_process *p)
{
	for (unsigned int i = 0; i < SEEN_SIZES; i++)
		for (unsigned int k = 0; k < SEEN_TIMES; k++)
			to[i][k] += p->times[i][k];
}

/* How much of the beginning of a file the process comes to. */
static double take_reads(struct doctor *d, const struct seen *seen)
{
	struct doctor_file *f = doctor_file_of(d, seen->dev, seen->ino, seen->path);
	struct doctor_counts here = { 0 };
	uint64_t reads;

	add_counts(&here, seen);
	reads = here.reads[RUN_COULD];
	if (!f)
		return 0;
	if (!f->mtime_ns || seen->mtime_ns < f->mtime_ns) {
		f->size = seen->size;
		f->mtime_ns = seen->mtime_ns;
	}
	add_counts(&f->counts, seen);
	if (seen->blocks > f->blocks)
		f->blocks = seen->blocks;
	return reads < DOCTOR_NEW_READS ? (double)reads / DOCTOR_NEW_READS : 1;
}

/* What the program has noted at its end counts where /proc does not tell us. It has noted that for
 * each program that it became, and the last one has all. */
static void take_io(struct doctor *d, const struct seen_process *p)
{
	if (d->io_by_proc || p->pid != (uint64_t)d->child || !p->io_known ||
	    p->marks & SEEN_BLIND || p->io_bytes < d->io.read_bytes)
		return;
	d->io = (struct doctor_io){ .known = true,
		                    .read_bytes = p->io_bytes,
		                    .reads = p->io_reads,
		                    .device_bytes = p->io_device_bytes };
}

static void take_process(struct doctor *d, const struct seen_process *p)
{
	double new = 0;

	take_io(d, p);
	for (unsigned int i = 0; i < SEEN_FILES; i++)
		if (p->files[i].owner == 2) {
			add_counts(&d->counts, &p->files[i]);
			new += take_reads(d, &p->files[i]);
		}
	add_counts(&d->counts, &p->files[SEEN_FILES]);
	doctor_add_times(d->times, p);
	d->nr_programs++;
	d->nr_served += new > 0;
	d->nr_new += new;
}

static void take_user(struct doctor *d, unsigned int user)
{
	for (unsigned int i = 0; i < d->nr_users; i++)
		if (d->users[i] == user)
			return;
	if (d->nr_users < DOCTOR_USERS)
		d->users[d->nr_users++] = user;
}

/* A file of counts, or an empty one of a process that found no room. */
static void take_file_of(struct doctor *d, const char *folder, const char *name)
{
	struct seen_process *p = doctor_counts_map(folder, name);

	if (!p) {
		d->nr_lost++;
		return;
	}
	take_process(d, p);
	take_user(d, (unsigned int)p->user);
	d->marks |= p->marks;
	munmap(p, sizeof(*p));
}

/* Calls each() with every name in a folder of counts. For a user's own folder it does the same. */
static void each_name(struct doctor *d, const char *folder,
                      void (*each)(struct doctor *d, const char *folder,
                                   const char *name))
{
	char within[DOCTOR_FOLDER_BYTES + NAME_MAX + 2];
	const struct dirent *e;
	DIR *dir = opendir(folder);

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		if (folder == d->counts_folder &&
		    strncmp(e->d_name, RUN_DOCTOR_USER, strlen(RUN_DOCTOR_USER)) == 0) {
			snprintf(within, sizeof(within), "%s/%s", folder, e->d_name);
			each_name(d, within, each);
		} else {
			each(d, folder, e->d_name);
		}
	}
	if (dir)
		closedir(dir);
}

/* ---- while it runs ---- */

/* The processes leave files named PID-N. In a name space of processes that number is another
 * process's here, which has none of our counts. The process with the most mappings of files is
 * kept. */
static void look_at_process(struct doctor *d, const char *folder, const char *name)
{
	struct doctor_maps maps = { 0 };
	int pid = atoi(name);

	(void)folder;
	if (pid <= 0 || pid == d->looked_at || d->nr_looked_at >= LOOKED_AT)
		return;
	d->looked_at = pid;
	d->nr_looked_at++;
	doctor_proc_maps(pid, d->counts_folder, &maps);
	if (maps.pid && maps.ours &&
	    (maps.pid == d->maps.pid || !d->maps.pid ||
	     maps.resident_bytes > d->maps.resident_bytes ||
	     (maps.resident_bytes == d->maps.resident_bytes && maps.nr > d->maps.nr))) {
		maps.rings |= d->maps.rings;
		d->maps = maps;
	}
}

static void look_at_maps(struct doctor *d)
{
	d->looked_at = 0;
	d->nr_looked_at = 0;
	each_name(d, d->counts_folder, look_at_process);
}

/* Waits for the end of the program, which stays a zombie so that /proc still knows it. */
static void wait_for_end(struct doctor *d, pid_t child, const sigset_t *ours)
{
	uint64_t look_ms = FIRST_LOOK_MS;
	siginfo_t info;
	int number;

	for (;;) {
		struct timespec wait = { .tv_sec = (time_t)(look_ms / 1000),
			                 .tv_nsec =
			                         (long)(look_ms % 1000 * NS_PER_MS) };

		info.si_pid = 0;
		if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT | WNOHANG) !=
		            0 ||
		    info.si_pid == child)
			return;
		number = sigtimedwait(ours, &info, &wait);
		if (number < 0 && errno == EAGAIN) {
			look_at_maps(d);
			if (look_ms < LAST_LOOK_MS)
				look_ms *= 2;
		} else if (number > 0 && number != SIGCHLD) {
			d->interrupted |= number != SIGUSR1 && number != SIGUSR2 &&
			                  number != SIGHUP;
			/* The terminal's has come to the program as well. */
			if (info.si_code <= 0)
				kill(child, number);
		}
	}
}

/* In the child. */
static _Noreturn void become(const struct doctor *d, const sigset_t *before)
{
	sigprocmask(SIG_SETMASK, before, NULL);
	_exit(preload_become(d->command));
}

static int prepare(const struct doctor *d)
{
	int status = preload_enter();

	if (status != CLI_OK)
		return status;
	if (preload_set(RUN_DOCTOR, d->counts_folder) ||
	    preload_set_number(RUN_FILTERS, preload_count_filters()) ||
	    preload_set(RUN_SOCKET, NULL) || preload_set(RUN_REPORT, NULL) ||
	    preload_set(RUN_RECORD, NULL) || preload_set(RUN_JSON, NULL) ||
	    preload_set(MAP_BUDGET, NULL)) {
		cli_error("cannot set the environment: %s", strerror(errno));
		return CLI_FAILED;
	}
	return CLI_OK;
}

/* From now on our own children run without the shim. */
static void unprepare(const char *preload)
{
	preload_set("LD_PRELOAD", preload);
	preload_set(RUN_DOCTOR, NULL);
	preload_set(RUN_FILTERS, NULL);
}

static int run(struct doctor *d, const sigset_t *ours, const sigset_t *before,
               int *ret_status)
{
	uint64_t began = cli_now_ns();
	struct rusage used;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0)
		become(d, before);
	if (child < 0) {
		cli_error("cannot start a process: %s", strerror(errno));
		return CLI_FAILED;
	}
	wait_for_end(d, child, ours);
	d->wall_ns = cli_now_ns() - began;
	doctor_proc_io(child, &d->io);
	d->io_by_proc = d->io.known;
	d->child = child;
	if (wait4(child, ret_status, 0, &used) != child) {
		cli_error("cannot wait for the program: %s", strerror(errno));
		return CLI_FAILED;
	}
	d->system_ns = doctor_ns_of(&used.ru_stime);
	d->cpu_ns = doctor_ns_of(&used.ru_utime) + d->system_ns;
	each_name(d, d->counts_folder, take_file_of);
	d->interrupted = d->interrupted || WIFSIGNALED(*ret_status);
	return CLI_OK;
}

int doctor_run(struct doctor *d, int *ret_status)
{
	const char *preload = getenv("LD_PRELOAD");
	char *kept = preload ? strdup(preload) : NULL;
	sigset_t ours, before;
	int status = prepare(d);

	sigemptyset(&ours);
	sigaddset(&ours, SIGCHLD);
	for (size_t i = 0; i < sizeof(handed_on) / sizeof(*handed_on); i++)
		sigaddset(&ours, handed_on[i]);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &ours, &before);
	if (status == CLI_OK)
		status = run(d, &ours, &before, ret_status);
	/* Those that came with the program's end meant the program. */
	while (sigtimedwait(&ours, NULL, &(struct timespec){ 0 }) > 0)
		;
	unprepare(kept);
	free(kept);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return status;
}

/* ---- a process that runs already ---- */

int doctor_watch(struct doctor *d)
{
	const struct timespec step = { .tv_nsec = WATCH_STEP_MS * (long)NS_PER_MS };
	static struct doctor_fds fds;
	struct doctor_io before = { 0 }, after = { 0 };
	uint64_t user = 0, system = 0, user_end, system_end;
	uint64_t began = cli_now_ns();
	int error = doctor_proc_cpu(d->pid, &user, &system);

	doctor_proc_io(d->pid, &before);
	if (error || !before.known) {
		cli_error(
			error ? "there is no process %d"
			      : "process %d: its /proc/PID/io is not readable; look as its "
				"user or as root",
			d->pid);
		return CLI_FAILED;
	}
	doctor_proc_fds(d, &fds);
	d->moved_bytes = 0;
	after = before;
	user_end = user;
	system_end = system;
	doctor_proc_maps(d->pid, d->counts_folder, &d->maps);
	while (!cli_stopped && cli_now_ns() - began < d->watch_ms * NS_PER_MS) {
		nanosleep(&step, NULL);
		if (doctor_proc_cpu(d->pid, &user_end, &system_end) != 0)
			break;
		doctor_proc_io(d->pid, &after);
		doctor_proc_fds(d, &fds);
	}
	d->wall_ns = cli_now_ns() - began;
	d->system_ns = system_end - system;
	d->cpu_ns = user_end - user + d->system_ns;
	d->io = (struct doctor_io){ .known = true,
		                    .reads = after.reads - before.reads,
		                    .read_bytes = after.read_bytes - before.read_bytes,
		                    .device_bytes =
		                            after.device_bytes - before.device_bytes };
	return CLI_OK;
}
