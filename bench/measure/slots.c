/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Measured slots. Contract: bench/measure/slots.h. */
#define _GNU_SOURCE
#include "bench/measure/slots.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure/shared.h"
#include "host/random.h"

#define LINE_BYTES 64u
/* The warm-up brings state and code back after the other alternatives' slots. */
#define WARM_NS 500000u
#define WINDOW_NS 2000000u
/* From the order to the common start: in this time every worker wakes. */
#define START_DELAY_NS 150000u
#define START_DELAY_EACH_NS 5000u
#define TICK_NS 1000000u
/* A worker looks at the clock so often: a look costs far less than this. */
#define BATCH_NS 20000u
#define BATCH_FIRST 8u
#define BATCH_MOST ((u64)1 << 16)
/* An answer wakes the parent, perhaps on the CPU of a worker that is not done yet. So all
 * workers hold their answers back until every window is over. */
#define HOLD_BACK_NS (4 * BATCH_NS)
#define OVERLAP_LEAST 0.7
#define MAX_TRIES 3u
/* After so long without an answer, the parent looks whether the worker has died. */
#define ANSWER_S 2
#define ANSWERS_WAITED 15u
/* Workers begin far from each other: the step is odd, and near no simple fraction. */
#define APART RANDOM_STEP

enum op { OP_SLOT, OP_CALL, OP_LEAVE };

struct report {
	u64 nr_ops, nr_all_ops, nr_failed;
	u64 begin_ns, end_ns;
	bool preempted;
};

struct slots_worker {
	u32 number;
	int cpu;
	bool processes;
	pthread_t thread;
	pid_t process;
	sem_t ordered, done;
	/* Written before ordered is posted, read after. */
	enum op op;
	struct slots_work work;
	u64 start_ns;
	/* Written before done is posted, read after. */
	struct report report;
} __attribute__((aligned(LINE_BYTES)));

static void wait_until(u64 at_ns)
{
	while (host_now_ns() < at_ns)
		host_relax();
}

struct run {
	const struct slots_work *work;
	u32 worker;
	u64 position;
	u64 batch;
	u64 tick_ns; /* when the next one is due */
	u64 nr_failed;
};

/* Returns the number of operations; ret_last_ns is when the last of them was over. */
static u64 run_until(struct run *r, u64 end_ns, u64 *ret_last_ns)
{
	u64 nr = 0, now = host_now_ns(), before, failed;

	while (now < end_ns) {
		if (r->work->tick && now >= r->tick_ns) {
			r->work->tick(r->work->arg, r->worker);
			r->tick_ns += TICK_NS;
		}
		failed = r->work->run(r->work->arg, r->worker, r->position, r->batch);
		r->nr_failed += failed;
		r->position += r->batch;
		nr += r->batch - failed;
		before = now;
		now = host_now_ns();
		if (now - before < BATCH_NS / 2 && r->batch < BATCH_MOST)
			r->batch *= 2;
		else if (now - before > 2 * BATCH_NS && r->batch > 1)
			r->batch /= 2;
	}
	*ret_last_ns = now;
	return nr;
}

static void do_slot(struct slots_worker *me)
{
	struct run run = {
		.work = &me->work,
		.worker = me->number,
		.position = me->work.position + me->number * APART,
		.batch = BATCH_FIRST,
		.tick_ns = me->start_ns,
	};
	u64 end_ns = me->start_ns + WARM_NS + WINDOW_NS;
	struct report *r = &me->report;
	struct rusage before, after;
	u64 nr_warm;

	wait_until(me->start_ns);
	nr_warm = run_until(&run, end_ns - WINDOW_NS, &r->begin_ns);
	getrusage(RUSAGE_THREAD, &before);
	r->begin_ns = host_now_ns();
	r->nr_ops = run_until(&run, end_ns, &r->end_ns);
	getrusage(RUSAGE_THREAD, &after);
	wait_until(end_ns + HOLD_BACK_NS);
	r->preempted = (before.ru_nvcsw != after.ru_nvcsw && !me->work.sleeps) ||
	               before.ru_nivcsw != after.ru_nivcsw;
	r->nr_all_ops = nr_warm + r->nr_ops;
	r->nr_failed = run.nr_failed;
}

/* An order may come at any time. EINTR is a signal that the parent deals with. */
static void wait_for(sem_t *sem)
{
	while (sem_wait(sem) != 0 && errno == EINTR)
		continue;
}

static void *worker_run(void *arg)
{
	struct slots_worker *me = arg;

	while (wait_for(&me->ordered), me->op != OP_LEAVE) {
		if (me->op == OP_SLOT)
			do_slot(me);
		else
			me->report.nr_failed =
				me->work.run(me->work.arg, me->number, 0, 1);
		sem_post(&me->done);
	}
	return NULL;
}

static void cpu_set_only(cpu_set_t *set, int cpu)
{
	CPU_ZERO(set);
	CPU_SET(cpu, set);
}

static int start_thread(struct slots_worker *w)
{
	pthread_attr_t attr;
	cpu_set_t set;
	int error;

	cpu_set_only(&set, w->cpu);
	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	error = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	if (!error)
		error = pthread_create(&w->thread, &attr, worker_run, w);
	pthread_attr_destroy(&attr);
	return error == EINVAL ? -EPERM : -error;
}

static _Noreturn void process_run(struct slots_worker *w, pid_t parent)
{
	cpu_set_t set;

	/* Ctrl-C reaches the whole group. The parent ends its workers when it has answers. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (w->cpu >= 0) {
		cpu_set_only(&set, w->cpu);
		if (sched_setaffinity(0, sizeof(set), &set) != 0)
			_exit(1);
	}
	worker_run(w);
	_exit(0);
}

static int start_process(struct slots_worker *w)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		return -EAGAIN;
	if (pid == 0)
		process_run(w, parent);
	w->process = pid;
	return 0;
}

int slots_open(struct slots *s, const int *cpus, u32 nr, bool processes)
{
	int error = 0;

	*s = (struct slots){ .processes = processes };
	s->workers = shared_alloc(nr * sizeof(*s->workers), LINE_BYTES);
	if (!s->workers)
		return -ENOMEM;
	for (u32 i = 0; i < nr && !error; i++) {
		struct slots_worker *w = &s->workers[i];

		w->number = i;
		w->cpu = cpus[i];
		w->processes = processes;
		sem_init(&w->ordered, 1, 0);
		sem_init(&w->done, 1, 0);
		error = processes ? start_process(w) : start_thread(w);
		s->nr_workers += !error;
	}
	if (error)
		slots_close(s);
	return error;
}

void slots_close(struct slots *s)
{
	for (u32 i = 0; i < s->nr_workers; i++) {
		struct slots_worker *w = &s->workers[i];

		w->op = OP_LEAVE;
		sem_post(&w->ordered);
		if (!s->processes)
			pthread_join(w->thread, NULL);
		else if (w->process > 0)
			waitpid(w->process, NULL, 0);
	}
	s->nr_workers = 0;
}

/* A process that died never answers. A thread that dies takes this program along. */
static bool worker_died(struct slots_worker *w)
{
	if (!w->processes || waitpid(w->process, NULL, WNOHANG) == 0)
		return false;
	w->process = 0;
	return true;
}

static int wait_for_answer(struct slots_worker *w)
{
	for (u32 i = 0; i < ANSWERS_WAITED;) {
		struct timespec t;

		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_sec += ANSWER_S;
		if (sem_timedwait(&w->done, &t) == 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (worker_died(w))
			return -EPIPE;
		i++;
	}
	return -EPIPE;
}

static int ask(struct slots *s, u32 nr, enum op op, const struct slots_work *work)
{
	u64 start_ns = host_now_ns() + START_DELAY_NS + nr * START_DELAY_EACH_NS;
	int error = 0;

	for (u32 i = 0; i < nr; i++) {
		struct slots_worker *w = &s->workers[i];

		w->op = op;
		w->work = *work;
		w->start_ns = start_ns;
		w->report = (struct report){ 0 };
		sem_post(&w->ordered);
	}
	for (u32 i = 0; i < nr && !error; i++)
		error = wait_for_answer(&s->workers[i]);
	return error;
}

/* The time that all windows share, over the time that any of them covers. */
static double overlap(const struct slots_worker *workers, u32 nr)
{
	u64 first = workers[0].report.begin_ns, last = workers[0].report.end_ns;
	u64 begin = first, end = last;

	for (u32 i = 1; i < nr; i++) {
		const struct report *r = &workers[i].report;

		begin = r->begin_ns > begin ? r->begin_ns : begin;
		first = r->begin_ns < first ? r->begin_ns : first;
		end = r->end_ns < end ? r->end_ns : end;
		last = r->end_ns > last ? r->end_ns : last;
	}
	return end > begin ? (double)(end - begin) / (double)(last - first) : 0;
}

/* Does the slot count, and what is its rate? */
static bool judge(const struct slots_worker *workers, u32 nr, double *ret_mops)
{
	double mops = 0;

	for (u32 i = 0; i < nr; i++) {
		const struct report *r = &workers[i].report;

		if (r->preempted || r->end_ns <= r->begin_ns || r->nr_ops == 0)
			return false;
		mops += 1e3 * (double)r->nr_ops / (double)(r->end_ns - r->begin_ns);
	}
	if (overlap(workers, nr) < OVERLAP_LEAST)
		return false;
	*ret_mops = mops;
	return true;
}

int slots_measure(struct slots *s, u32 nr, const struct slots_work *work,
                  struct slots_result *ret)
{
	struct slots_result result = { 0 };

	while (!result.counts && result.nr_tried < MAX_TRIES) {
		int error = ask(s, nr, OP_SLOT, work);

		if (error)
			return error;
		result.nr_tried++;
		for (u32 i = 0; i < nr; i++) {
			result.nr_ops += s->workers[i].report.nr_all_ops;
			result.nr_failed += s->workers[i].report.nr_failed;
		}
		result.counts = judge(s->workers, nr, &result.mops);
	}
	*ret = result;
	return 0;
}

int slots_call(struct slots *s, u32 nr, const struct slots_work *work, u64 *ret_failed)
{
	int error = ask(s, nr, OP_CALL, work);

	if (error)
		return error;
	*ret_failed = 0;
	for (u32 i = 0; i < nr; i++)
		*ret_failed += s->workers[i].report.nr_failed;
	return 0;
}
