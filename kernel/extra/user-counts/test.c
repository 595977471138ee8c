// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The system calls of user-counts.patch, case by case. Each case runs in a process of its own.
 * After each, the kernel must have no reference and no counting thread left.
 */
#include "calls.h"
#include "test.h"

#define THREADS 16
#define OBJECTS 8
#define MOVING_ROUNDS 2000
#define READER_ROUNDS 300
#define RECLAIMS 300
#define HELD_ALL_THE_WHILE 3

u8 objects[OBJECT_BYTES];

struct debug debug_read(void)
{
	struct debug d = { -1, -1, -1, -1, -1 };
	FILE *f = fopen(DEBUG_FILE, "re");

	if (!f || fscanf(f, "held %ld in_spills %ld threads %ld away %ld spilled %ld", &d.held,
	                 &d.in_spills, &d.threads, &d.away, &d.spilled) != 5)
		ktap_bail(DEBUG_FILE);
	fclose(f);
	return d;
}

void expect(const char *what, long got, long want)
{
	if (got != want)
		ktap_fail("%s is %ld, not %ld", what, got, want);
}

void on_cpu(u32 cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		ktap_bail("CPU %u", cpu);
}

void child_done(const char *what, pid_t pid)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		ktap_bail("%s", what);
	if (status)
		ktap_fail("%s ended with status %#x", what, status);
}

pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		ktap_bail("pthread_create");
	return thread;
}

/* -- one thread -------------------------------------------------------------------------- */

static void case_one_thread(void)
{
	long i;

	expect("the sum before", user_readall(objects), 0);
	for (i = 1; i <= 3; i++) {
		expect("a ref", user_ref(objects), 0);
		expect("the sum", user_readall(objects), i);
	}
	expect("the next object's sum", user_readall(objects + 1), 0);
	expect("a ref of it", user_ref(objects + 1), 0);
	for (i = 2; i >= 0; i--) {
		expect("an unref", user_unref(objects), 0);
		expect("the sum", user_readall(objects), i);
	}
	expect("the next object's sum", user_readall(objects + 1), 1);
	expect("its unref", user_unref(objects + 1), 0);
}

static void case_arguments(void)
{
	const void *mapped = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long number;

	for (number = NR_USER_REF; number <= NR_USER_READALL; number++) {
		expect("NULL", syscall(number, NULL, 0) ? errno : 0, EFAULT);
		expect("the kernel's memory", syscall(number, -PAGE, 0) ? errno : 0, EFAULT);
		expect("no address", syscall(number, 1ul << 62, 0) ? errno : 0, EFAULT);
		expect("a flag", syscall(number, objects, 1) ? errno : 0, EINVAL);
	}
	expect("a ref of what is mapped", user_ref(mapped), 0);
	munmap((void *)mapped, PAGE);
	expect("the sum of what is not", user_readall(mapped), 1);
	expect("its unref", user_unref(mapped), 0);
}

static void case_no_ref(void)
{
	expect("an unref before all refs", user_unref(objects), -ENOENT);
	expect("a ref", user_ref(objects), 0);
	expect("an unref of another object", user_unref(objects + 1), -ENOENT);
	expect("an unref", user_unref(objects), 0);
	expect("one too many", user_unref(objects), -ENOENT);
	expect("the sum", user_readall(objects), 0);
}

/* -- where a reference was taken --------------------------------------------------------- */

static void case_moved(void)
{
	struct debug before = debug_read(), after;

	on_cpu(0);
	expect("a ref on 0", user_ref(objects), 0);
	on_cpu(1);
	expect("a ref on 1", user_ref(objects), 0);
	expect("the sum", user_readall(objects), 2);
	/* The CPU's own anchor comes first, so this return needs no atomic. */
	expect("an unref on 1", user_unref(objects), 0);
	after = debug_read();
	expect("returns elsewhere", after.away - before.away, 0);
	expect("the sum", user_readall(objects), 1);
	expect("an unref of the other", user_unref(objects), 0);
	after = debug_read();
	expect("returns elsewhere", after.away - before.away, 1);
	expect("the sum", user_readall(objects), 0);
	/* The entry on 0 says 1 and -1 now. It must count on. */
	on_cpu(0);
	expect("a ref on 0 again", user_ref(objects), 0);
	expect("the sum", user_readall(objects), 1);
	expect("its unref", user_unref(objects), 0);
}

/* The oldest anchor keeps a reference as long as the thread has any. */
static void case_nested(void)
{
	struct debug before = debug_read(), after;

	on_cpu(1);
	expect("a ref on 1", user_ref(objects), 0);
	expect("another on 1", user_ref(objects), 0);
	on_cpu(0);
	expect("a ref on 0", user_ref(objects), 0);
	on_cpu(1);
	expect("an unref on 1, of two", user_unref(objects), 0);
	after = debug_read();
	expect("returns elsewhere", after.away - before.away, 0);
	/* A sum that has been at 0 before the ref there, and comes to 1 now, must find one. */
	expect("an unref on 1, of the last one", user_unref(objects), 0);
	after = debug_read();
	expect("returns elsewhere", after.away - before.away, 1);
	expect("the sum", user_readall(objects), 1);
	expect("an unref on 1, of the last of all", user_unref(objects), 0);
	after = debug_read();
	expect("returns elsewhere", after.away - before.away, 1);
	expect("the sum", user_readall(objects), 0);
}

static int online(u32 cpu, const char *state)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	return text_write(path, state);
}

static void case_offline(void)
{
	on_cpu(3);
	expect("a ref on 3", user_ref(objects), 0);
	on_cpu(0);
	expect("offline", online(3, "0"), 0);
	expect("the sum", user_readall(objects), 1);
	expect("an unref", user_unref(objects), 0);
	expect("the sum", user_readall(objects), 0);
	expect("online", online(3, "1"), 0);
	on_cpu(3);
	expect("a ref on 3", user_ref(objects), 0);
	expect("the sum", user_readall(objects), 1);
	expect("an unref", user_unref(objects), 0);
}

/* -- many threads ------------------------------------------------------------------------ */

static pthread_barrier_t barrier;
static atomic_int stop;

static void *count_much(void *arg)
{
	u64 random = random_mix(opt.seed + (u64)arg);
	u32 held[OBJECTS] = { 0 }, i;

	for (i = 0; i < MOVING_ROUNDS; i++) {
		u32 n = random_next(&random) % OBJECTS;

		if (random_next(&random) % 64 == 0)
			on_cpu(random_next(&random) % 4);
		if (held[n] && random_next(&random) % 2)
			held[n] -= !user_unref(objects + n);
		else if (held[n] < 4)
			held[n] += !user_ref(objects + n);
	}
	/* One reference of each object stays, and no more. */
	for (i = 0; i < OBJECTS; i++) {
		for (; held[i] > 1; held[i]--)
			expect("an unref", user_unref(objects + i), 0);
		if (!held[i])
			expect("a ref", user_ref(objects + i), 0);
	}
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (i = 0; i < OBJECTS; i++)
		expect("the last unref", user_unref(objects + i), 0);
	return NULL;
}

static void case_many_threads(void)
{
	pthread_t threads[THREADS];
	u64 i;

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (i = 0; i < THREADS; i++)
		threads[i] = start(count_much, (void *)i);
	pthread_barrier_wait(&barrier);
	for (i = 0; i < OBJECTS; i++)
		expect("the sum of all", user_readall(objects + i), THREADS);
	pthread_barrier_wait(&barrier);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < OBJECTS; i++)
		expect("the sum after", user_readall(objects + i), 0);
}

/* Takes one reference at a time, mostly on one CPU, and returns it on another. */
static void *count_and_move(void *arg)
{
	u32 cpu = (u64)arg % 4;

	while (!atomic_load(&stop)) {
		on_cpu(cpu);
		expect("a ref", user_ref(objects), 0);
		on_cpu((cpu + 1) % 4);
		expect("an unref", user_unref(objects), 0);
	}
	return NULL;
}

/* U3: no sum is less than the references that stay, or more than all that there can be. */
static void case_sum_while_moving(void)
{
	pthread_t threads[4];
	long least = HELD_ALL_THE_WHILE, most = 0;
	u64 i;

	for (i = 0; i < HELD_ALL_THE_WHILE; i++) {
		on_cpu(i);
		expect("a ref", user_ref(objects), 0);
	}
	for (i = 0; i < NR(threads); i++)
		threads[i] = start(count_and_move, (void *)i);
	for (i = 0; i < READER_ROUNDS; i++) {
		long nr = user_readall(objects);

		least = nr < least ? nr : least;
		most = nr > most ? nr : most;
		sched_yield();
	}
	atomic_store(&stop, 1);
	for (i = 0; i < NR(threads); i++)
		pthread_join(threads[i], NULL);
	ktap_diag("sums from %ld to %ld", least, most);
	if (least < HELD_ALL_THE_WHILE || most > HELD_ALL_THE_WHILE + (long)NR(threads))
		ktap_fail("a sum was %ld or %ld", least, most);
	expect("the sum after", user_readall(objects), HELD_ALL_THE_WHILE);
}

static atomic_int reclaiming, dead, nr_used, nr_broken;

/* Fig. 4a: count, and then look whether a reclaimer is at work, or has been. */
static void *use_object(void *arg)
{
	while (!atomic_load(&stop)) {
		if (user_ref(arg))
			break;
		if (!atomic_load_explicit(&reclaiming, memory_order_relaxed) &&
		    !atomic_load_explicit(&dead, memory_order_relaxed)) {
			u32 i;

			for (i = 0; i < 50; i++)
				nr_broken += atomic_load(&dead);
			nr_used++;
		}
		if (user_unref(arg))
			break;
		while (atomic_load(&reclaiming) && !atomic_load(&stop))
			sched_yield();
	}
	return NULL;
}

/* Fig. 4c: raise the flag, sum, and take the object if nobody has it. Then bring it back. */
static void case_reclaim(void)
{
	pthread_t threads[3];
	u32 i, tries, taken = 0;

	for (i = 0; i < NR(threads); i++)
		threads[i] = start(use_object, objects);
	for (i = 0; i < RECLAIMS; i++) {
		atomic_store_explicit(&reclaiming, 1, memory_order_relaxed);
		for (tries = 0; tries < 100 && user_readall(objects); tries++)
			sched_yield();
		if (!user_readall(objects)) {
			taken++;
			atomic_store(&dead, 1);
			sched_yield();
			atomic_store(&dead, 0);
		}
		atomic_store(&reclaiming, 0);
		sched_yield();
	}
	atomic_store(&stop, 1);
	for (i = 0; i < NR(threads); i++)
		pthread_join(threads[i], NULL);
	ktap_diag("used %d times, taken %u of %u times", nr_used, taken, RECLAIMS);
	expect("uses of a dead object", nr_broken, 0);
	if (!taken || !nr_used)
		ktap_fail("no test: used %d times, taken %u times", nr_used, taken);
}

/* -- limits ------------------------------------------------------------------------------ */

static void case_anchors_full(void)
{
	u32 i;

	on_cpu(0);
	for (i = 0; i < MOST_OBJECTS; i++)
		expect("a ref", user_ref(objects + i), 0);
	expect("one object too many", user_ref(objects + i), -ENOSPC);
	expect("its sum", user_readall(objects + i), 0);
	expect("the same object again", user_ref(objects + 7), 0);
	on_cpu(1);
	expect("the same object elsewhere", user_ref(objects + 7), -ENOSPC);
	expect("an unref", user_unref(objects + 9), 0);
	expect("the same object elsewhere", user_ref(objects + 7), 0);
	expect("its sum", user_readall(objects + 7), 3);
}

static void case_refs_full(void)
{
	u32 i;

	on_cpu(0);
	for (i = 0; i < MOST_REFS; i++)
		if (user_ref(objects))
			ktap_fail("ref %u failed", i);
	expect("one ref too many", user_ref(objects), -EOVERFLOW);
	expect("the sum", user_readall(objects), MOST_REFS);
	on_cpu(1);
	expect("a ref elsewhere", user_ref(objects), 0);
	expect("the sum", user_readall(objects), MOST_REFS + 1);
}

#define CROWD (2 * CPU_ENTRIES / MOST_OBJECTS)
#define DIFFERENT (CROWD * (MOST_OBJECTS - 1) + 1)

/* Each thread fills its anchors on one CPU. All hold one more object. */
static void *fill_table(void *arg)
{
	u64 n = (u64)arg, i;
	const u8 *mine = objects + n * MOST_OBJECTS;

	on_cpu(2);
	for (i = 0; i < MOST_OBJECTS - 1; i++)
		expect("a ref", user_ref(mine + i), 0);
	expect("the shared object's ref", user_ref(objects + MOST_OBJECTS - 1), 0);
	pthread_barrier_wait(&barrier);
	for (i = 0; i < MOST_OBJECTS - 1; i++)
		expect("the sum of an own object", user_readall(mine + i), 1);
	expect("the sum of the shared object", user_readall(objects + MOST_OBJECTS - 1), CROWD);
	pthread_barrier_wait(&barrier);
	on_cpu(n % 4);
	for (i = n % 2; i < MOST_OBJECTS - 1; i++) /* half of them leave one to the kernel */
		expect("an unref", user_unref(mine + i), 0);
	return NULL;
}

static void case_table_full(void)
{
	struct debug before = debug_read(), d;
	pthread_t threads[CROWD];
	u64 i;

	pthread_barrier_init(&barrier, NULL, CROWD + 1);
	for (i = 0; i < CROWD; i++)
		threads[i] = start(fill_table, (void *)i);
	pthread_barrier_wait(&barrier);
	d = debug_read();
	ktap_diag("%ld of %ld references found no room", d.in_spills, d.held + d.in_spills);
	expect("all references", d.held + d.in_spills, CROWD * MOST_OBJECTS);
	if (d.in_spills < DIFFERENT - CPU_ENTRIES || d.spilled == before.spilled)
		ktap_fail("more are in the table than it can hold");
	if (d.held < CPU_ENTRIES / 2)
		ktap_fail("only %ld of %u entries are used", d.held, CPU_ENTRIES);
	pthread_barrier_wait(&barrier);
	for (i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
}

static void *ref_object(void *arg)
{
	return (void *)user_ref(arg);
}

static void case_users_limit(void)
{
	long long was = text_read_number(SYSCTL_THREADS);
	pthread_t thread;
	void *got;

	expect("the limit", text_write_number(SYSCTL_THREADS, 1), 0);
	pthread_join(start(ref_object, objects), NULL); /* it has ended, so it does not count */
	expect("the first thread's ref", user_ref(objects), 0);
	thread = start(ref_object, objects);
	pthread_join(thread, &got);
	expect("the second thread's ref", (long)got, -EAGAIN);
	expect("the sum", user_readall(objects), 1);
	expect("the limit", text_write_number(SYSCTL_THREADS, 2), 0);
	thread = start(ref_object, objects);
	pthread_join(thread, &got);
	expect("the second thread's ref", (long)got, 0);
	expect("the limit", text_write_number(SYSCTL_THREADS, was), 0);
}

/* ---------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "one-thread", case_one_thread },
	{ "arguments", case_arguments },
	{ "no-ref", case_no_ref },
	{ "moved", case_moved },
	{ "nested", case_nested },
	{ "offline", case_offline },
	{ "many-threads", case_many_threads },
	{ "sum-while-moving", case_sum_while_moving },
	{ "reclaim", case_reclaim },
	{ "anchors-full", case_anchors_full },
	{ "refs-full", case_refs_full },
	{ "table-full", case_table_full },
	{ "users-limit", case_users_limit },
	{ "fork", case_fork },
	{ "vfork", case_vfork },
	{ "exec", case_exec },
	{ "thread-ends", case_thread_ends },
	{ "ends", case_ends },
};

/* In a process of its own. Then nothing may be left, whatever the case held. */
static void run_case(u32 n)
{
	struct debug d;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		cases[n].run();
		fflush(stdout);
		_exit(ktap_failing());
	}
	child_done("the case", pid);
	d = debug_read();
	expect("held after the case", d.held, 0);
	expect("in spills after the case", d.in_spills, 0);
	expect("counting threads after the case", d.threads, 0);
	ktap_result(cases[n].name);
}

int main(int argc, char **argv)
{
	u32 i;

	if (argc == 3 && !strcmp(argv[1], AFTER_EXEC))
		return after_exec(argv[2]);
	options_parse(argc, argv);
	if (user_readall(objects) == -ENOSYS) {
		printf("1..0 # SKIP this kernel has no user_readall()\n");
		return KTAP_SKIPPED;
	}
	ktap_plan(opt.only ? 1 : NR(cases));
	for (i = 0; i < NR(cases); i++) {
		if (!opt.only || !strcmp(opt.only, cases[i].name))
			run_case(i);
	}
	return ktap_end();
}
