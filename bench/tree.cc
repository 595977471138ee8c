/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * bench_tree: an index that is read all the time and changed now and then, as copy-on-write
 * B-trees are (LMDB, btrfs, many in-memory indexes). A reader pins the current version, goes
 * down from its root to a leaf, and unpins it. A writer copies the path to a leaf, publishes the
 * new version, and lets go of the old one. When its last reader leaves, its old nodes are free.
 * So all threads pin one object, whose count is the only word that they all write.
 *
 * The ways to count the readers of a version alternate in one run:
 *   paygo       lodic/counter.h
 *   percpu      lodic/counter.h by atomics on words of the CPU's own
 *   atomic      lodic/counter.h by compare-and-swap on the version's word
 *   shared_ptr  std::atomic_load() of a std::shared_ptr
 *   none        no count at all, and old nodes are never free: the most that there is to win
 *
 *    bench_tree [--csv PATH] [--threads LIST] [--rounds N] [--slot-ms N] [--keys N]
 */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <lodic/counter.hpp>

namespace
{

constexpr unsigned FANOUT = 32;
constexpr unsigned LEVELS_MOST = 8;
constexpr unsigned VERSIONS = 64; /* slots: more than can be in use at a time */
constexpr unsigned WRITE_EVERY = 4096; /* a writer's turn comes every so many reads of thread 0 */
constexpr unsigned CHECK_EVERY = 64; /* reads between two looks at the clock */

using clock_type = std::chrono::steady_clock;

uint64_t next(uint64_t &state)
{
	state += 0x9e3779b97f4a7c15ull;
	uint64_t z = state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Inner: children by index; leaf: values. Keys are 0 ... nr_keys - 1, times two. */
struct node {
	uint64_t keys[FANOUT];
	union {
		node *children[FANOUT];
		uint64_t values[FANOUT];
	};
	unsigned nr;
};

struct tree {
	node *root = nullptr;
	unsigned levels = 0;
};

/* That are there, of all ways. */
std::atomic<uint64_t> nr_nodes{ 0 };

node *make_node()
{
	nr_nodes.fetch_add(1, std::memory_order_relaxed);
	return new node{};
}

void drop_node(node *n)
{
	nr_nodes.fetch_sub(1, std::memory_order_relaxed);
	delete n;
}

void drop_tree(node *n, unsigned levels)
{
	for (unsigned i = 0; levels > 1 && i < n->nr; i++)
		drop_tree(n->children[i], levels - 1);
	drop_node(n);
}

/* A value says which key it belongs to, and which write made it. */
uint64_t value_of(uint64_t key, uint64_t write)
{
	return key << 24 | (write & 0xffffff);
}

tree build(uint64_t nr_keys)
{
	std::vector<node *> level;
	tree t;

	for (uint64_t k = 0; k < nr_keys;) {
		node *n = make_node();

		for (; n->nr < FANOUT && k < nr_keys; n->nr++, k++) {
			n->keys[n->nr] = 2 * k;
			n->values[n->nr] = value_of(2 * k, 0);
		}
		level.push_back(n);
	}
	for (t.levels = 1; level.size() > 1; t.levels++) {
		std::vector<node *> above;

		for (size_t i = 0; i < level.size();) {
			node *n = make_node();

			for (; n->nr < FANOUT && i < level.size(); n->nr++, i++) {
				n->keys[n->nr] = level[i]->keys[0];
				n->children[n->nr] = level[i];
			}
			above.push_back(n);
		}
		level = above;
	}
	t.root = level[0];
	return t;
}

/* The last place whose key is not above. */
unsigned place_of(const node *n, uint64_t key)
{
	unsigned low = 0;

	for (unsigned half = FANOUT / 2; half > 0; half /= 2)
		if (low + half < n->nr && n->keys[low + half] <= key)
			low += half;
	return low;
}

bool look_up(const tree &t, uint64_t key, uint64_t *ret_value)
{
	const node *n = t.root;

	for (unsigned level = t.levels; level > 1; level--)
		n = n->children[place_of(n, key)];
	unsigned i = place_of(n, key);

	if (n->keys[i] != key)
		return false;
	*ret_value = n->values[i];
	return true;
}

/* A new tree with another value at key. ret_old: the nodes that it shares no more. */
tree changed(const tree &t, uint64_t key, uint64_t value, node **ret_old)
{
	node *n = t.root, **from = nullptr;
	tree result{ nullptr, t.levels };

	for (unsigned level = t.levels; level > 0; level--) {
		node *copy = make_node();
		unsigned i = place_of(n, key);

		*copy = *n;
		ret_old[t.levels - level] = n;
		if (from)
			*from = copy;
		else
			result.root = copy;
		if (level == 1) {
			copy->values[i] = value;
		} else {
			from = &copy->children[i];
			n = n->children[i];
		}
	}
	return result;
}

/* What a reader pins. An older version may still have what a newer one has replaced. So each
 * version holds the next one, and versions go one after the other. */
struct version {
	lodic_counter counter = LODIC_COUNTER_INIT;
	std::atomic<bool> used{ false };
	tree t;
	node *old[LEVELS_MOST] = {}; /* free when this version has gone */
	lodicpp::counter_handle next;
};

void free_old(version *v)
{
	for (unsigned i = 0; i < v->t.levels; i++)
		if (v->old[i])
			drop_node(v->old[i]);
	memset(v->old, 0, sizeof(v->old));
}

/* ---- the ways ---- */

class index_base
{
public:
	virtual ~index_base() = default;
	virtual uint64_t read_for(clock_type::time_point end, uint64_t seed, bool writes) = 0;
	uint64_t nr_wrong = 0;
	uint64_t nr_writes = 0;
	uint64_t nr_kept = 0; /* old nodes that nobody frees */

protected:
	explicit index_base(uint64_t nr_keys) : nr_keys(nr_keys)
	{
	}

	/* Reads until end; write() comes in thread 0 now and then. */
	template <typename Read, typename Write>
	uint64_t loop(clock_type::time_point end, uint64_t seed, bool writes, Read read,
	              Write write)
	{
		uint64_t random = seed, nr = 0, wrong = 0;

		do {
			for (unsigned i = 0; i < CHECK_EVERY; i++) {
				uint64_t key = 2 * (next(random) % nr_keys), value = 0;

				if (!read(key, &value) || value >> 24 != key)
					wrong++;
			}
			nr += CHECK_EVERY;
			if (writes && nr % WRITE_EVERY == 0)
				write(2 * (next(random) % nr_keys));
		} while (clock_type::now() < end);
		if (wrong)
			__atomic_fetch_add(&nr_wrong, wrong, __ATOMIC_RELAXED);
		return nr;
	}

	const uint64_t nr_keys;
};

/* paygo, percpu, atomic; none: without a count. */
class counted_index : public index_base
{
public:
	counted_index(uint64_t nr_keys, lodic_counter_scheme scheme, bool counts)
		: index_base(nr_keys), counts_(counts)
	{
		lodic_domain_options options{};

		options.scheme = scheme;
		options.release = released;
		if (lodic_domain_create(&options, &domain_) != 0)
			abort();
		versions_[0].used = true;
		versions_[0].t = build(nr_keys);
		current_ = &versions_[0];
	}

	~counted_index() override
	{
		if (counts_ && lodic_counter_kill(domain_, &current_.load()->counter) != 0)
			abort();
		lodic_domain_destroy(domain_);
		drop_tree(current_.load()->t.root, current_.load()->t.levels);
		for (auto &v : kept_)
			free_old(v.get());
		free_old(&versions_[0]);
	}

	uint64_t read_for(clock_type::time_point end, uint64_t seed, bool writes) override
	{
		auto write = [this](uint64_t key) { change(key); };

		if (!counts_)
			return loop(end, seed, writes,
			            [this](uint64_t key, uint64_t *value) {
				            return look_up(current_.load(std::memory_order_acquire)
				                                   ->t,
				                           key, value);
			            },
			            write);
		return loop(end, seed, writes,
		            [this](uint64_t key, uint64_t *value) {
			            return read(key, value);
		            },
		            write);
	}

private:
	/* Versions lie in slots that stay memory for versions, so that a pin may come late. */
	bool read(uint64_t key, uint64_t *value)
	{
		for (;;) { /* again when the version was replaced meanwhile */
			version *v = current_.load(std::memory_order_acquire);
			lodicpp::counter_guard guard(domain_, v->counter);

			if (guard)
				return look_up(v->t, key, value);
		}
	}

	void change(uint64_t key)
	{
		version *before = current_.load(std::memory_order_relaxed), *v = nullptr;

		if (!counts_) {
			kept_.push_back(std::make_unique<version>());
			v = kept_.back().get();
		}
		for (unsigned i = 0; i < VERSIONS && !v; i++)
			if (!versions_[i].used.load(std::memory_order_acquire))
				v = &versions_[i];
		if (!v)
			return; /* readers keep all versions: later */
		v->used.store(true, std::memory_order_relaxed);
		v->t = changed(before->t, key, value_of(key, ++nr_writes), before->old);
		lodic_counter_init(&v->counter);
		if (counts_)
			before->next = lodicpp::counter_handle::take(domain_, v->counter);
		current_.store(v, std::memory_order_release);
		if (!counts_)
			nr_kept += before->t.levels; /* nobody knows when they are free */
		else if (lodic_counter_kill(domain_, &before->counter) != 0)
			abort();
	}

	static void released(lodic_counter *counter, void *)
	{
		version *v = reinterpret_cast<version *>(counter);
		lodicpp::counter_handle next = std::move(v->next);

		free_old(v);
		v->used.store(false, std::memory_order_release);
	}

	bool counts_;
	lodic_domain *domain_ = nullptr;
	version versions_[VERSIONS];
	std::vector<std::unique_ptr<version>> kept_; /* of way none */
	alignas(64) std::atomic<version *> current_{ nullptr };
};

class shared_index : public index_base
{
public:
	explicit shared_index(uint64_t nr_keys) : index_base(nr_keys)
	{
		current_ = std::make_shared<owned>();
		current_->v.t = build(nr_keys);
	}

	~shared_index() override
	{
		drop_tree(current_->v.t.root, current_->v.t.levels);
	}

	uint64_t read_for(clock_type::time_point end, uint64_t seed, bool writes) override
	{
		return loop(
			end, seed, writes,
			[this](uint64_t key, uint64_t *value) {
				std::shared_ptr<owned> o = std::atomic_load(&current_);

				return look_up(o->v.t, key, value);
			},
			[this](uint64_t key) {
				std::shared_ptr<owned> before = std::atomic_load(&current_);
				auto o = std::make_shared<owned>();

				o->v.t = changed(before->v.t, key, value_of(key, ++nr_writes),
				                 before->v.old);
				before->next = o;
				std::atomic_store(&current_, o);
			});
	}

private:
	struct owned {
		version v;
		std::shared_ptr<owned> next;
		~owned()
		{
			free_old(&v);
		}
	};

	alignas(64) std::shared_ptr<owned> current_;
};

/* ---- rounds ---- */

struct way {
	const char *name;
	std::unique_ptr<index_base> index;
	/* By number of threads, by round: 10^6 reads a second. */
	std::vector<std::vector<double>> mops;
};

struct plan {
	std::vector<unsigned> threads{ 1, 2 };
	unsigned rounds = 30, slot_ms = 20;
	uint64_t nr_keys = 1 << 15, seed = 20240731;
	std::string csv;
};

std::vector<int> cpus_here()
{
	std::vector<int> cpus;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &set))
				cpus.push_back(i);
	return cpus;
}

double slot(index_base &index, unsigned nr_threads, const plan &p, uint64_t seed,
            const std::vector<int> &cpus)
{
	std::vector<std::thread> threads;
	std::vector<double> rates(nr_threads);
	auto start = clock_type::now() + std::chrono::microseconds(500);

	for (unsigned i = 0; i < nr_threads; i++)
		threads.emplace_back([&, i] {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET(cpus[i % cpus.size()], &set);
			pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
			while (clock_type::now() < start)
				;
			auto begin = clock_type::now();
			uint64_t nr = index.read_for(
				start + std::chrono::milliseconds(p.slot_ms), seed + i, i == 0);
			std::chrono::duration<double, std::micro> took =
				clock_type::now() - begin;

			rates[i] = static_cast<double>(nr) / took.count();
		});
	for (auto &t : threads)
		t.join();
	double sum = 0;

	for (double r : rates)
		sum += r;
	return sum;
}

struct spread {
	double low, median, high;
};

spread spread_of(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return { v[v.size() / 4], v[v.size() / 2], v[v.size() * 3 / 4] };
}

spread ratio_of(const std::vector<double> &a, const std::vector<double> &b)
{
	std::vector<double> r;

	for (size_t i = 0; i < a.size(); i++)
		r.push_back(a[i] / b[i]);
	return spread_of(r);
}

void print(const plan &p, const std::vector<way> &ways, size_t atomic, FILE *csv)
{
	if (csv)
		fprintf(csv, "way,threads,mops,low,high,ns,ratio_to_atomic,ratio_low,"
		             "ratio_high\n");
	printf("%-11s %7s %18s %8s  %s\n", "way", "threads", "reads, 10^6/s", "ns",
	       "ratio to atomic (quartiles)");
	for (size_t t = 0; t < p.threads.size(); t++)
		for (const way &w : ways) {
			spread s = spread_of(w.mops[t]);
			spread r = ratio_of(w.mops[t], ways[atomic].mops[t]);
			double ns = 1e3 * p.threads[t] / s.median;

			if (csv)
				fprintf(csv, "%s,%u,%.3f,%.3f,%.3f,%.1f,%.3f,%.3f,%.3f\n", w.name,
				        p.threads[t], s.median, s.low, s.high, ns, r.median,
				        r.low, r.high);
			printf("%-11s %7u %7.2f (%4.1f-%4.1f) %8.1f  %.2f (%.2f-%.2f)\n",
			       w.name, p.threads[t], s.median, s.low, s.high, ns, r.median,
			       r.low, r.high);
		}
}

bool number(const char *text, uint64_t most, uint64_t *ret)
{
	char *end = nullptr;

	*ret = strtoull(text, &end, 10);
	return *text && !*end && *ret > 0 && *ret <= most;
}

bool parse(int argc, char **argv, plan *p)
{
	static const option options[] = { { "csv", required_argument, nullptr, 'c' },
		                          { "threads", required_argument, nullptr, 't' },
		                          { "rounds", required_argument, nullptr, 'r' },
		                          { "slot-ms", required_argument, nullptr, 's' },
		                          { "keys", required_argument, nullptr, 'k' },
		                          { nullptr, 0, nullptr, 0 } };
	uint64_t n = 0;
	int key;

	while ((key = getopt_long(argc, argv, "", options, nullptr)) != -1) {
		bool good = key == 'c' || key == 't' ||
		            (key != '?' && number(optarg, uint64_t{ 1 } << 30, &n));

		if (!good)
			return false;
		switch (key) {
		case 'c': p->csv = optarg; break;
		case 'r': p->rounds = static_cast<unsigned>(n); break;
		case 's': p->slot_ms = static_cast<unsigned>(n); break;
		case 'k': p->nr_keys = n; break;
		default:
			p->threads.clear();
			for (char *rest = optarg, *piece; (piece = strsep(&rest, ","));) {
				if (!number(piece, 1024, &n))
					return false;
				p->threads.push_back(static_cast<unsigned>(n));
			}
		}
	}
	return optind == argc;
}

} // namespace

int main(int argc, char **argv)
{
	plan p;
	std::vector<int> cpus = cpus_here();
	std::vector<way> ways;
	FILE *csv = nullptr;
	uint64_t wrong = 0, writes = 0;

	if (!parse(argc, argv, &p)) {
		fprintf(stderr, "bench_tree: wrong usage; the head of bench/tree.cc lists the "
		                "options\n");
		return 2;
	}
	if (!p.csv.empty() && !(csv = fopen(p.csv.c_str(), "w"))) {
		perror(p.csv.c_str());
		return 1;
	}
	const size_t atomic = 2;

	ways.push_back({ "paygo",
	                 std::make_unique<counted_index>(p.nr_keys, LODIC_COUNTER_PAYGO, true),
	                 {} });
	ways.push_back({ "percpu",
	                 std::make_unique<counted_index>(p.nr_keys, LODIC_COUNTER_PERCPU, true),
	                 {} });
	ways.push_back({ "atomic",
	                 std::make_unique<counted_index>(p.nr_keys, LODIC_COUNTER_ATOMIC, true),
	                 {} });
	ways.push_back({ "shared_ptr", std::make_unique<shared_index>(p.nr_keys), {} });
	ways.push_back({ "none",
	                 std::make_unique<counted_index>(p.nr_keys, LODIC_COUNTER_ATOMIC, false),
	                 {} });
	const uint64_t nr_first = nr_nodes; /* each tree keeps its number of nodes */

	for (way &w : ways)
		w.mops.resize(p.threads.size());
	for (unsigned round = 0; round < p.rounds; round++)
		for (size_t t = 0; t < p.threads.size(); t++)
			for (size_t i = 0; i < ways.size(); i++) {
				/* Each round begins with another way. */
				way &w = ways[(i + round) % ways.size()];

				w.mops[t].push_back(
					slot(*w.index, p.threads[t], p, p.seed + round, cpus));
			}
	for (way &w : ways) {
		if (w.index->nr_wrong)
			fprintf(stderr, "bench_tree: %s: %llu wrong reads\n", w.name,
			        static_cast<unsigned long long>(w.index->nr_wrong));
		wrong += w.index->nr_wrong;
		writes += w.index->nr_writes;
	}
	print(p, ways, atomic, csv);
	if (csv)
		fclose(csv);
	/* What the counted ways have replaced is free: only "none" has kept its old nodes. */
	const uint64_t leaked = nr_nodes - nr_first - ways.back().index->nr_kept;

	printf("%llu writes; %llu wrong reads; %llu old nodes left by the counted ways\n",
	       static_cast<unsigned long long>(writes), static_cast<unsigned long long>(wrong),
	       static_cast<unsigned long long>(leaked));
	return wrong || leaked ? 1 : 0;
}
