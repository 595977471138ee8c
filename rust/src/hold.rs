// SPDX-License-Identifier: GPL-2.0-only OR MIT
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::{fmt, slice};

use crate::cache::{Cache, File};
use crate::context::off_t_of;
use crate::error::{Error, Result};
use crate::ffi;

/// A contiguous range of a file, in memory that stays as it is until the hold is dropped. All
/// programs that hold the range share it, from 1 MiB on.
pub struct Hold(NonNull<ffi::lodic_hold>);

// SAFETY: lodic.h: any thread may look at it and release it, and nobody changes its bytes.
unsafe impl Send for Hold {}
unsafe impl Sync for Hold {}

impl Hold {
    /// Holds the whole file, and waits until it is there.
    pub fn of(cache: &Cache, file: &File) -> Result<Hold> {
        Hold::range(cache, file, 0, 0)
    }

    /// Holds n bytes from offset on, as far as the file goes; 0: to its end.
    pub fn range(cache: &Cache, file: &File, offset: u64, n: u64) -> Result<Hold> {
        let at = off_t_of(offset)?;
        let mut hold = ptr::null_mut();
        // SAFETY: both are there until the call has returned, and then the hold needs neither.
        let result = unsafe {
            ffi::lodic_hold(
                cache.0.as_ptr(),
                file.0.as_ptr(),
                at,
                n,
                ffi::LODIC_WAIT,
                &mut hold,
            )
        };
        Error::check(result as isize)?;
        Ok(Hold(NonNull::new(hold).expect("lodic_hold() gives one")))
    }
}

impl Deref for Hold {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: it is ready, and its bytes neither change nor go. There is one at least.
        unsafe {
            slice::from_raw_parts(
                ffi::lodic_hold_data(self.0.as_ptr()).cast(),
                ffi::lodic_hold_bytes(self.0.as_ptr()) as usize,
            )
        }
    }
}

impl AsRef<[u8]> for Hold {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { ffi::lodic_release(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hold({} bytes)", self.len())
    }
}

#[cfg(feature = "bytes")]
impl From<Hold> for bytes::Bytes {
    /// Without a copy: the hold ends with the last of them.
    fn from(hold: Hold) -> bytes::Bytes {
        bytes::Bytes::from_owner(hold)
    }
}
