// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What this crate uses of lodic.h, by hand. tests/rust/test_rust.py gives each declaration to a C
//! compiler beside lodic.h, which refuses what differs.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int, c_uint, c_void};

pub type off_t = i64;
pub type ssize_t = isize;

/// Types of which only pointers are known.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )* };
}
opaque! { lodic lodic_context lodic_file lodic_hold }

#[repr(C)]
pub struct lodic_options {
    pub bytes: usize,
    pub socket: *const c_char,
    pub service: *const c_char,
    pub cache_bytes: u64,
    pub scheme: c_uint,
    pub idle_exit_ms: u32,
    pub hold_bytes: u64,
}

#[repr(C)]
pub struct lodic_pin {
    pub data: *const c_void,
    pub bytes: usize,
    pub word: *mut u64,
}

/// What one context has done: see lodic.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lodic_context_stat {
    pub hits: u64,
    pub soft_misses: u64,
    pub misses: u64,
    pub retries: u64,
    pub pins_refused: u64,
    pub pinned: u64,
    pub may_pin: u64,
}

/// What the cache holds, and what it has done: see lodic.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lodic_stat {
    pub frames: u64,
    pub cached: u64,
    pub pinned: u64,
    pub admitted: u64,
    pub evicted: u64,
    pub evictions_refused: u64,
    pub errors: u64,
    pub files: u64,
    pub direct_io: u64,
    pub revoked: u64,
    pub clients: u64,
    pub contexts: u64,
    pub reaped: u64,
    pub hits: u64,
    pub soft_misses: u64,
    pub misses: u64,
    pub retries: u64,
    pub pins_refused: u64,
    pub control_bytes: u64,
    pub data_bytes: u64,
    pub count_bytes: u64,
    pub context_bytes: u64,
    pub service_pid: u64,
    pub uptime_ns: u64,
    pub scheme: u64,
    pub entries: u64,
    pub io_uring: u64,
    pub huge_bytes: u64,
    pub light_pins: u64,
    pub holds: u64,
    pub hold_limit: u64,
    pub hold_bytes: u64,
    pub hold_used_bytes: u64,
    pub hold_huge_bytes: u64,
    pub holds_given: u64,
    pub holds_read: u64,
    pub holds_failed: u64,
    pub memory_limit: u64,
}

pub const LODIC_WAIT: c_uint = 1;

extern "C" {
    pub fn lodic_attach(options: *const lodic_options, ret_lodic: *mut *mut lodic) -> c_int;
    pub fn lodic_detach(lodic: *mut lodic);
    pub fn lodic_context_open(lodic: *mut lodic, ret_context: *mut *mut lodic_context) -> c_int;
    pub fn lodic_context_close(context: *mut lodic_context);
    pub fn lodic_open(lodic: *mut lodic, fd: c_int, ret_file: *mut *mut lodic_file) -> c_int;
    pub fn lodic_close(file: *mut lodic_file);
    pub fn lodic_file_cached(file: *const lodic_file) -> c_int;
    pub fn lodic_read(
        context: *mut lodic_context,
        file: *mut lodic_file,
        buffer: *mut c_void,
        n: usize,
        offset: off_t,
    ) -> ssize_t;
    pub fn lodic_pin(
        context: *mut lodic_context,
        file: *mut lodic_file,
        offset: off_t,
        ret_pin: *mut lodic_pin,
    ) -> c_int;
    pub fn lodic_unpin(context: *mut lodic_context, pin: *mut lodic_pin);
    pub fn lodic_prefetch(
        context: *mut lodic_context,
        file: *mut lodic_file,
        offset: off_t,
        n: u64,
        flags: c_uint,
    ) -> c_int;
    pub fn lodic_hold(
        lodic: *mut lodic,
        file: *mut lodic_file,
        offset: off_t,
        n: u64,
        flags: c_uint,
        ret_hold: *mut *mut lodic_hold,
    ) -> c_int;
    pub fn lodic_hold_data(hold: *const lodic_hold) -> *const c_void;
    pub fn lodic_hold_bytes(hold: *const lodic_hold) -> u64;
    pub fn lodic_release(hold: *mut lodic_hold);
    pub fn lodic_context_stat(
        context: *const lodic_context,
        ret_stat: *mut lodic_context_stat,
        bytes: usize,
    );
    pub fn lodic_stat(lodic: *mut lodic, ret_stat: *mut lodic_stat, bytes: usize) -> c_int;
    pub fn lodic_strerror(error: c_int) -> *const c_char;
    pub fn lodic_reason(error: c_int) -> c_uint;
    pub fn lodic_reason_text(reason: c_uint) -> *const c_char;
    pub fn lodic_reason_name(reason: c_uint) -> *const c_char;
}
