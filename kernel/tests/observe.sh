#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Watches what the kernel does with the pages of files while db_bench and nginx run. It prints
# lines "what|program|..." for tool/observe.py. A word of the kernel's command line says what:
#   observe=sites    who takes references on pages of files, and how often
#   observe=highest  how many local references a page and an entry have at a time
#   observe=mapped   where the files are among the VMAs
#   observe=times    how long references are held; one CPU that counts instructions
#   observe=kinds    pages by kind, and how long pages and slab objects live; one CPU, as times
#   observe=dst      the same of dst entries, and who takes them; a kernel with TCP
export PATH=$PATH:/usr/bin
T=/sys/kernel/tracing
DIR=/mnt/ext4/observe
SOCKET=/tmp/nginx.sock	# or a TCP port
LISTEN=unix:$SOCKET
DB="--db=$DIR/db --num=20000 --key_size=16 --value_size=100 --compression_type=none
	--cache_size=65536 --use_existing_db=1 --open_files=-1 --seed=1 --statistics=0"
trace_off() {
	echo 0 >$T/tracing_on
	echo 0 >$T/events/enable
	echo >$T/kprobe_events
	echo >$T/trace
}

# -- the programs ---------------------------------------------------------------------------

make_files() {
	mkdir -p $DIR/db $DIR/www /tmp/nginx
	chmod 755 /mnt/ext4 $DIR $DIR/www
	db_bench $DB --use_existing_db=0 --benchmarks=fillseq,compact >/tmp/fill.log 2>&1 ||
		{ cat /tmp/fill.log; exit 1; }
	head -c 612 /dev/urandom >$DIR/www/index.html
	head -c 65536 /dev/urandom >$DIR/www/64k
	head -c 1048576 /dev/urandom >$DIR/www/1m
	sync
}

nginx_start() {	# on|off
	cat >/tmp/nginx.conf <<-END
	worker_processes 4; pid /tmp/nginx/pid; error_log /tmp/nginx/error.log; user root root;
	events { worker_connections 256; }
	http {
		access_log off; sendfile $1; open_file_cache max=16;
		client_body_temp_path /tmp/nginx/a; proxy_temp_path /tmp/nginx/b;
		fastcgi_temp_path /tmp/nginx/c; uwsgi_temp_path /tmp/nginx/d;
		scgi_temp_path /tmp/nginx/e;
		server { listen $LISTEN; root $DIR/www; }
	}
	END
	rm -f $SOCKET
	$MAP nginx -p /tmp/nginx -c /tmp/nginx.conf || { cat /tmp/nginx/error.log; exit 1; }
}

nginx_stop() {
	kill "$(cat /tmp/nginx/pid)"
	while [ -e /tmp/nginx/pid ]; do usleep 10000; done
}

web() {
	http_get $SOCKET "$CLIENTS" "$REQUESTS" $PATHS >/tmp/web.log 2>&1 || cat /tmp/web.log
}

reads() {	# pread|mmap
	mmap=0
	[ "$1" = mmap ] && mmap=1
	$MAP db_bench $DB --benchmarks=readrandom --threads="$CLIENTS" --reads="$READS" \
		--mmap_read=$mmap >/tmp/db.log 2>&1 || cat /tmp/db.log
}

# New files that replace older ones, with their logs and compactions.
writes() {
	db_bench $DB --benchmarks=overwrite --threads=1 --num=4000 --sync=0 \
		--write_buffer_size=131072 >/tmp/db.log 2>&1 || cat /tmp/db.log
	sync
}

# A tree of 60 files is packed, unpacked elsewhere, and removed.
tree() {
	tar -C $DIR -cf $DIR/tree.tar tree && mkdir $DIR/copy && tar -C $DIR/copy -xf $DIR/tree.tar
	sync
	rm -r $DIR/copy $DIR/tree.tar
	sync
}

# What is named, as a function of no arguments.
program() {
	case $1 in
	db_bench-write) writes ;;
	tar) tree ;;
	db_bench-pread) reads pread ;;
	db_bench-mmap) reads mmap ;;
	nginx-*) web ;;
	esac
}

before() {
	case $1 in
	nginx-sendfile) nginx_start on ;;
	nginx-read) nginx_start off ;;
	esac
}

after() {
	case $1 in nginx-*) nginx_stop ;; esac
}

# -- what is asked --------------------------------------------------------------------------

sites() {	# PROGRAM
	for site in $(sed '/^#/d; s/|.*//' /tests/observe.sites); do
		echo "p:obs/$site $site" >>$T/kprobe_events || echo "# no $site"
	done
	before "$1"
	program "$1"
	echo 1 >$T/events/obs/enable
	echo 1 >$T/tracing_on
	program "$1"
	echo 0 >$T/tracing_on
	echo 0 >$T/events/obs/enable
	awk -v who="$1" '{ print "site|" who "|" $1 "|" $2 }' $T/kprobe_profile
	after "$1"
	trace_off
}

# Each local reference, in the order of the counter: the most at a time, for a page and for
# one entry of a process. nginx has a process for each pid, db_bench has one.
highest() {	# PROGRAM
	before "$1"
	echo counter >$T/trace_clock
	echo 24576 >$T/buffer_size_kb
	echo 1 >$T/events/lodic/enable
	echo 1 >$T/tracing_on
	program "$1"
	echo 0 >$T/tracing_on
	after "$1"
	grep -c lodic_ref $T/trace | sed "s/^/refs|$1|/"
	awk -v who="$1" -f /tests/observe.awk $T/trace
	trace_off
}

# Where the files that a process maps lie among its VMAs, from the top.
vmas() {	# PROGRAM PID
	awk -v who="$1" '{ line[NR] = $0 }
	END {
		for (i = NR; i > 0; i--) {
			if (line[i] ~ /vsyscall|\[stack\]|vdso|vvar/) { special++; continue }
			if (line[i] ~ /\/mnt\/ext4\/observe/) { n++; if (!first) first = NR - i + 1
				last = NR - i + 1 }
		}
		printf "vmas|%s|%d|%d|%d|%d\n", who, NR, n, first, last
	}' "/proc/$2/maps"
}

mapped() {	# PROGRAM
	before "$1"
	case $1 in
	db_bench-*)
		program "$1" &
		sleep 4
		vmas "$1" "$(pidof db_bench | cut -d' ' -f1)"
		wait
		;;
	*)
		program "$1"
		for pid in $(pidof nginx); do
			vmas "$1" "$pid"
		done
		;;
	esac
	after "$1"
}

# How long an object is held, in instructions, less nothing: observe_ops says what a probe
# costs. Pages: see trace/events/lodic.h. A probe at a return has the value as arg ret.
durations() {	# PROGRAM
	echo 'p:obs/dentry_get lockref_get_not_dead at=$arg1' >>$T/kprobe_events
	echo 'p:obs/dentry_get2 lockref_get at=$arg1' >>$T/kprobe_events
	echo 'p:obs/dentry_put lockref_put_return at=$arg1' >>$T/kprobe_events
	echo 'r:obs/file_get fdget at=$retval' >>$T/kprobe_events
	echo 'p:obs/file_put fput at=$arg1' >>$T/kprobe_events
	echo 'p:obs/inode_get ihold at=$arg1' >>$T/kprobe_events
	echo 'p:obs/inode_put iput at=$arg1' >>$T/kprobe_events
	before "$1"
	program "$1"
	echo x86-tsc >$T/trace_clock
	echo 24576 >$T/buffer_size_kb
	echo 1 >$T/events/obs/enable
	echo 1 >$T/events/lodic/enable
	echo 1 >$T/tracing_on
	program "$1"
	echo 0 >$T/tracing_on
	awk -v who="$1" -v times=1 -f /tests/observe.awk $T/trace
	trace_off
	after "$1"
}

kinds() {	# PROGRAM
	before "$1"
	echo x86-tsc >$T/trace_clock
	echo 24576 >$T/buffer_size_kb
	echo 'p:kinds/slab_new allocate_slab' >>$T/kprobe_events
	for event in kmem/kmem_cache_alloc kmem/kmem_cache_free kmem/mm_page_alloc \
			kmem/mm_page_free filemap/mm_filemap_add_to_page_cache \
			filemap/mm_filemap_delete_from_page_cache kinds/slab_new; do
		echo 1 >$T/events/$event/enable
	done
	echo 1 >$T/tracing_on
	program "$1"
	echo 0 >$T/tracing_on
	awk '$1 == "overrun:" { n = $2 } END { if (n) print "# events lost: " n }' \
		$T/per_cpu/cpu0/stats
	awk -v who="$1" -v times=1 -v lives=1 -f /tests/observe.awk $T/trace
	trace_off
	after "$1"
}

probe_cost() {
	observe_ops $DIR/www/index.html | sed 's/^/plain|/'
	echo 'p:obs/dentry_get lockref_get_not_dead at=$arg1' >>$T/kprobe_events
	echo 'p:obs/dentry_put lockref_put_return at=$arg1' >>$T/kprobe_events
	echo 'r:obs/file_get fdget at=$retval' >>$T/kprobe_events
	echo 'p:obs/file_put fput at=$arg1' >>$T/kprobe_events
	echo 'p:obs/inode_get ihold at=$arg1' >>$T/kprobe_events
	echo 'p:obs/inode_put iput at=$arg1' >>$T/kprobe_events
	for what in lodic obs; do
		echo x86-tsc >$T/trace_clock
		echo 1 >$T/events/$what/enable
		echo 1 >$T/tracing_on
		observe_ops $DIR/www/index.html | sed "s/^/$what|/"
		echo 0 >$T/tracing_on
		echo 0 >$T/events/$what/enable
		awk -v who="ops-$what" -v times=1 -f /tests/observe.awk $T/trace
		echo >$T/trace
	done
	trace_off
}

# Offset 88 of a packet is its dst entry; the lowest bit is 1 while it is not counted.
dst_probes() {
	echo 'p:dsts/dst_xmit __dev_queue_xmit ref=+88($arg1):x64' >>$T/kprobe_events
	echo 'p:dsts/dst_put dst_release at=$arg1 from=$stack0:symbol' >>$T/kprobe_events
	echo x86-tsc >$T/trace_clock
	echo 24576 >$T/buffer_size_kb
	echo 1 >$T/events/dsts/enable
	echo 1 >$T/tracing_on
}

# What a probe costs: a datagram, and how many probes it meets.
dst_cost() {
	observe_ops - udp | sed 's/^/plain|/'
	dst_probes
	observe_ops - udp | sed 's/^/dsts|/'
	echo 0 >$T/tracing_on
	echo "hits|send|$(($(grep -c ' dst_' $T/trace) / 201))"
	trace_off
}

dst() {	# PROGRAM
	before "$1"
	program "$1"
	echo 'p:dsts/dst_route ip_route_output_key_hash_rcu' >>$T/kprobe_events
	echo 'p:dsts/dst_rx inet_sk_rx_dst_set ref=+88($arg2):x64' >>$T/kprobe_events
	dst_probes
	program "$1"
	echo 0 >$T/tracing_on
	awk -v who="$1" -v times=1 -f /tests/observe.awk $T/trace
	trace_off
	after "$1"
}

trace_off
echo 1 >/proc/sys/vm/lodic_mappers
CLIENTS=4 READS=500 REQUESTS=40 PATHS="/index.html /64k /index.html /1m"
MAP=
make_files
case $(cat /proc/cmdline) in
*observe=sites*)
	for name in db_bench-pread db_bench-mmap nginx-read nginx-sendfile; do
		sites $name
	done
	;;
*observe=highest*)
	MAP="/opt/lodic/lodic map --"
	CLIENTS=64 READS=100 REQUESTS=10 PATHS="/index.html /64k"
	for name in db_bench-pread nginx-read; do
		highest $name
	done
	;;
*observe=mapped*)
	READS=20000 PATHS=/index.html
	mapped db_bench-mmap
	MAP="/opt/lodic/lodic map --"
	mapped db_bench-pread
	mapped nginx-read
	;;
*observe=kinds*)
	CLIENTS=1 READS=300 REQUESTS=20
	mkdir $DIR/tree
	for i in $(seq 60); do
		head -c $((i * 1000)) /dev/urandom >$DIR/tree/$i
	done
	sync
	echo 3 >/proc/sys/vm/drop_caches
	for name in db_bench-pread db_bench-write nginx-read tar; do
		kinds $name
	done
	;;
*observe=dst*)
	ifconfig lo 127.0.0.1 up
	PATHS="/index.html /64k" SOCKET=8080 LISTEN=127.0.0.1:8080
	dst_cost
	for name in nginx-read nginx-sendfile; do
		dst $name
	done
	;;
*observe=times*)
	probe_cost
	PATHS="/index.html /64k"
	MAP="/opt/lodic/lodic map --"
	for name in db_bench-pread nginx-read nginx-sendfile; do
		durations $name
	done
	;;
esac
