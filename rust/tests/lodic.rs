// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The guards against a real service, which each test starts in a folder of its own.
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lodic::{Cache, Context, File, Hold, Options, Pin, BLOCK_BYTES};

const MIB: usize = 1 << 20;
const DEADLINE: Duration = Duration::from_secs(60);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "it has not come: {}", what);
        thread::sleep(Duration::from_millis(1));
    }
}

/// A folder with a file and a service. Both go with it.
struct Bed {
    folder: PathBuf,
    options: Options,
    bytes: Vec<u8>,
}

impl Bed {
    fn new(nr_bytes: usize) -> Bed {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("lodic-rust-{}-{}", std::process::id(), number);
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let mut word = 1u64;
        let bytes: Vec<u8> = (0..nr_bytes)
            .map(|_| {
                word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (word >> 56) as u8
            })
            .collect();
        fs::write(folder.join("data"), &bytes).unwrap();
        let build = std::env::var_os("LODIC_BUILD").expect("LODIC_BUILD says where lodic is");
        let options = Options {
            socket: Some(folder.join("cache")),
            service: Some(PathBuf::from(build).join("lodic")),
            cache_bytes: 64 << 20,
            idle_exit_ms: 5000,
            hold_bytes: 48 << 20,
        };
        Bed { folder, options, bytes }
    }

    fn cache(&self) -> Cache {
        Cache::attach(&self.options).unwrap()
    }

    /// Of which all blocks are cached.
    fn file(&self, cache: &Cache, context: &Context) -> File {
        let file = File::open(cache, self.folder.join("data")).unwrap();
        file.cached().expect("files can be cached in the temporary folder");
        context.prefetch(&file, 0, 0, true).unwrap();
        file
    }

    fn end_service(&self, signal: &str) {
        let running = Options { service: Some(PathBuf::new()), ..self.options.clone() };
        let pid = match Cache::attach(&running).and_then(|cache| cache.stat()) {
            Ok(stat) => stat.service_pid.to_string(),
            Err(_) => return,
        };
        let killed = Command::new("sh").args(["-c", "kill -$0 $1", signal, &pid]).status();
        assert!(killed.unwrap().success());
        until("the service ends", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid)).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        });
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.end_service("TERM");
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn errors_say_why() {
    let bed = Bed::new(10);
    let none = Options { service: Some(PathBuf::new()), ..bed.options.clone() };
    let error = Cache::attach(&none).unwrap_err();
    assert_eq!(error.errno(), 2);
    assert!(error.to_string().contains("no service listens"), "{}", error);
    assert_eq!(error.reason(), "no-service");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
    let odd = Options { socket: Some(PathBuf::from("a\0b")), ..none };
    assert_eq!(Cache::attach(&odd).unwrap_err().errno(), 22);

    let cache = bed.cache();
    assert_eq!(cache.stat().unwrap().hold_limit, 48 << 20);
    assert_eq!(File::open(&cache, bed.folder.join("gone")).unwrap_err().errno(), 2);
    assert_eq!(File::open(&cache, &bed.folder).unwrap_err().errno(), 21);
    let file = File::open(&cache, bed.folder.join("data")).unwrap();
    let context = Context::open(&cache).unwrap();
    let error = context.read_at(&file, &mut [0], u64::MAX).unwrap_err();
    assert_eq!(error.errno(), 22);
    assert!(context.pin(&file, u64::MAX).is_none());
    let error = Hold::range(&cache, &file, 10, 0).unwrap_err();
    assert_eq!((error.errno(), error.reason()), (61, "past-end"));
    assert!(error.to_string().contains("ends before the offset"), "{}", error);
}

#[test]
fn reads_and_pins_are_the_bytes() {
    let bed = Bed::new(20 * BLOCK_BYTES + 100);
    let cache = bed.cache();
    let context = Context::open(&cache).unwrap();
    let file = bed.file(&cache, &context);
    let mut got = vec![0; bed.bytes.len() + 1];
    assert_eq!(context.read_at(&file, &mut got, 0).unwrap(), bed.bytes.len());
    assert_eq!(got[..bed.bytes.len()], bed.bytes[..]);
    assert_eq!(context.read_at(&file, &mut got, bed.bytes.len() as u64).unwrap(), 0);
    assert!(context.pin(&file, bed.bytes.len() as u64).is_none());

    let mut pins: Vec<Pin> = (0..4).map(|i| context.pin(&file, i * 4096 + 9).unwrap()).collect();
    pins.swap(0, 3); // a pin may move
    assert_eq!(context.stat().pinned, 4);
    assert_eq!(pins[0][..], bed.bytes[3 * 4096 + 9..4 * 4096]);
    assert_eq!(pins[3].as_ref(), &bed.bytes[9..4096]);
    drop(pins);
    assert_eq!(context.stat().pinned, 0);
    let last = context.pin(&file, 20 * 4096).unwrap();
    assert_eq!(*last, bed.bytes[20 * 4096..]);
    std::mem::forget(last); // the context gives it back
    assert_eq!(cache.stat().unwrap().pinned, 1);
    drop(context);
    until("no pin is left", || cache.stat().unwrap().pinned == 0);
}

#[test]
fn pin_of_a_function_ends_with_it() {
    let bed = Bed::new(3 * BLOCK_BYTES);
    let cache = bed.cache();
    let context = Context::open(&cache).unwrap();
    let file = bed.file(&cache, &context);
    let look = |bytes: &[u8]| {
        assert_eq!(context.stat().pinned, 1);
        bytes == &bed.bytes[100..BLOCK_BYTES]
    };
    assert_eq!(context.with_pin(&file, 100, look), Some(true));
    assert_eq!(context.stat().pinned, 0);
    assert_eq!(context.with_pin(&file, 3 * 4096, |_| ()), None);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        context.with_pin(&file, 0, |_| panic!("while it is pinned"))
    }));
    assert!(panicked.is_err());
    assert_eq!(context.stat().pinned, 0);
}

#[test]
fn threads_have_contexts_of_their_own() {
    let bed = Bed::new(20 * BLOCK_BYTES);
    let cache = bed.cache();
    let context = Context::open(&cache).unwrap();
    let file = bed.file(&cache, &context);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = Context::open(&cache).unwrap();
                for i in 0..2000 {
                    let at = i % 20 * BLOCK_BYTES;
                    let pin = own.pin(&file, at as u64).expect("it is cached");
                    assert_eq!(*pin, bed.bytes[at..at + BLOCK_BYTES]);
                }
            });
        }
    });
    until("their contexts end", || cache.stat().unwrap().contexts == 1);
}

#[test]
fn hold_outlives_all_else() {
    fn any_thread<T: Send + Sync + 'static>(_: &T) {}
    let bed = Bed::new(2 * MIB + 5);
    let (cache, other) = (bed.cache(), bed.cache());
    let file = File::open(&cache, bed.folder.join("data")).unwrap();
    let whole = Hold::of(&cache, &file).unwrap();
    let part = Hold::range(&cache, &file, MIB as u64, 3).unwrap();
    any_thread(&whole);
    drop((cache, file));
    assert_eq!(other.stat().unwrap().hold_used_bytes, (2 * MIB + BLOCK_BYTES) as u64);
    fs::write(bed.folder.join("data"), "all is another").unwrap();
    let bytes = bed.bytes.clone();
    thread::spawn(move || assert_eq!(*whole, bytes[..])).join().unwrap();
    until("the hold ends", || other.stat().unwrap().hold_used_bytes == 0);
    bed.end_service("KILL");
    assert_eq!(part.as_ref(), &bed.bytes[MIB..MIB + 3]);
}

#[test]
fn reads_go_on_when_the_service_is_killed() {
    let bed = Bed::new(3 * BLOCK_BYTES);
    let cache = bed.cache();
    let context = Context::open(&cache).unwrap();
    let file = bed.file(&cache, &context);
    let mut got = [0; 100];
    bed.end_service("KILL");
    // Its last thread may still be ending.
    until("the death is seen", || context.pin(&file, 0).is_none() && file.cached().is_err());
    assert!(cache.stat().is_err());
    assert_eq!(context.read_at(&file, &mut got, 4096).unwrap(), 100);
    assert_eq!(got[..], bed.bytes[4096..4196]);
    let _starts_another = Context::open(&cache).unwrap();
    until("the cache is back", || {
        context.read_at(&file, &mut got, 0).unwrap();
        context.pin(&file, 0).is_some()
    });
    assert_eq!(got[..], bed.bytes[..100]);
}

#[test]
fn file_that_is_written_is_read_anew() {
    let bed = Bed::new(3 * BLOCK_BYTES);
    let cache = bed.cache();
    let context = Context::open(&cache).unwrap();
    let file = bed.file(&cache, &context);
    let before = context.pin(&file, 0).unwrap();
    let mut writer = fs::OpenOptions::new().write(true).open(bed.folder.join("data")).unwrap();
    writer.write_all(b"written").unwrap();
    let mut got = [0; 7];
    assert_eq!(context.read_at(&file, &mut got, 0).unwrap(), 7);
    assert_eq!(&got, b"written");
    assert_eq!(*before, bed.bytes[..BLOCK_BYTES]); // a pin is a snapshot
}

#[cfg(feature = "bytes")]
#[test]
fn bytes_own_a_hold() {
    let bed = Bed::new(MIB);
    let cache = bed.cache();
    let file = File::open(&cache, bed.folder.join("data")).unwrap();
    let hold = Hold::of(&cache, &file).unwrap();
    let at = hold.as_ptr();
    let all = bytes::Bytes::from(hold);
    let part = all.slice(1000..2000);
    assert_eq!(all.as_ptr(), at);
    drop(all);
    assert_eq!(part[..], bed.bytes[1000..2000]);
    assert_eq!(cache.stat().unwrap().hold_used_bytes, MIB as u64);
    thread::spawn(move || drop(part)).join().unwrap();
    until("the hold ends", || cache.stat().unwrap().hold_used_bytes == 0);
}
