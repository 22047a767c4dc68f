//! Measured regions for Rust: `preload/include/mallow.h`, idiomatically. No dependencies, no effect without Mallow.
//!
//! ```
//! mallow_measure::measure("parse", || {
//!     let numbers: Vec<u32> = "1 2 3".split(' ').filter_map(|n| n.parse().ok()).collect();
//!     numbers.len() as u64
//! });
//! ```
//!
//! Under `mallow test` the closure runs as often as the test wants, and what each run allocates is counted; without
//! Mallow it runs once. It returns how many operations it performed, or 0. In a test of `cargo test`, whose threads run
//! side by side, [`Region::this_thread`] measures one test alone:
//!
//! ```
//! let region = mallow_measure::Region::this_thread("concat");
//! let text = format!("{}-{}", 1, 2);
//! drop(text);
//! region.end(1);
//! ```

#![warn(missing_docs)]
// A damaged file, or a hostile one, ends in an error: what cannot fail says why in an `expect` of its own.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

use std::ffi::{CStr, CString, c_char, c_long, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;

type Function = unsafe extern "C" fn(*mut c_void) -> c_long;

/// `struct mallow_region`. It stays where it is while it is open: the library keeps no pointer to it, only the name's.
#[repr(C)]
struct RawRegion {
    name: *const c_char,
    scope: u32,
    state: u32,
    own: [u64; 14],
}

/// `struct mallow_api`
#[repr(C)]
struct Api {
    bytes: u32,
    version: u32,
    measure: unsafe extern "C" fn(*const c_char, Function, *mut c_void, u32),
    begin: unsafe extern "C" fn(*mut RawRegion, *const c_char, u32),
    end: unsafe extern "C" fn(*mut RawRegion, c_long),
    operations: unsafe extern "C" fn(c_long) -> c_long,
}

const SYMBOL: &CStr = c"mallow_api_1";
const VERSION: u32 = 1;

#[cfg(unix)]
fn library() -> Option<&'static Api> {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    }
    // RTLD_DEFAULT
    #[cfg(target_vendor = "apple")]
    const EVERYWHERE: *mut c_void = -2isize as *mut c_void;
    #[cfg(not(target_vendor = "apple"))]
    const EVERYWHERE: *mut c_void = std::ptr::null_mut();
    static FOUND: OnceLock<Option<&'static Api>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: a look-up by a name that ends with NUL; it changes nothing.
        let api: *const Api = unsafe { dlsym(EVERYWHERE, SYMBOL.as_ptr()) }.cast();
        // SAFETY: what is exported under this name is a constant that begins with its size and version, and is never
        // unloaded: the library is preloaded.
        let (bytes, version) = if api.is_null() { (0, 0) } else { unsafe { ((*api).bytes, (*api).version) } };
        let whole = version == VERSION && bytes as usize >= size_of::<Api>();
        // SAFETY: it is as large as the struct here, of this version, and constant.
        whole.then(|| unsafe { &*api })
    })
}

#[cfg(not(unix))]
fn library() -> Option<&'static Api> {
    None
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What all threads allocate. Begin and end wait until the other threads are quiet.
    WholeProcess = 0,
    /// What the calling thread allocates.
    ThisThread = 1,
}

/// A name for C: cut at a NUL, if it has one.
fn c_name(name: &str) -> CString {
    CString::new(name.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// Runs `function` as often as the test wants, once without Mallow. It returns how many operations it performed, or 0.
///
/// # Panics
/// Where `function` does, after the run in which it did.
pub fn measure(name: &str, function: impl FnMut() -> u64) {
    measure_in(Scope::WholeProcess, name, function);
}

/// The same, with a choice of what is counted.
///
/// # Panics
/// See [`measure`].
pub fn measure_in<F: FnMut() -> u64>(scope: Scope, name: &str, mut function: F) {
    let Some(api) = library() else {
        function();
        return;
    };
    struct Context<'a, F> {
        function: &'a mut F,
        panic: Option<Box<dyn std::any::Any + Send>>,
    }
    unsafe extern "C" fn call<F: FnMut() -> u64>(context: *mut c_void) -> c_long {
        // SAFETY: the pointer is the one given below, to a context that outlives the call and that nobody else uses
        // meanwhile.
        let context = unsafe { &mut *context.cast::<Context<'_, F>>() };
        if context.panic.is_some() {
            return 0;
        }
        // A panic must not unwind through the library's frames.
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut *context.function)) {
            Ok(operations) => c_long::try_from(operations).unwrap_or(c_long::MAX),
            Err(panic) => {
                context.panic = Some(panic);
                0
            }
        }
    }
    let name = c_name(name);
    let mut context = Context { function: &mut function, panic: None };
    // SAFETY: the function is called with the context alone, before this returns; the name ends with NUL and outlives
    // it.
    unsafe { (api.measure)(name.as_ptr(), call::<F>, (&raw mut context).cast(), scope as u32) };
    if let Some(panic) = context.panic {
        std::panic::resume_unwind(panic);
    }
}

/// How many operations the test wants a run to perform; `otherwise` where it does not say.
pub fn operations(otherwise: u64) -> u64 {
    let Some(api) = library() else { return otherwise };
    // SAFETY: the function takes any number.
    let wanted = unsafe { (api.operations)(c_long::try_from(otherwise).unwrap_or(c_long::MAX)) };
    u64::try_from(wanted).unwrap_or(otherwise)
}

/// A measured run from its making to its end.
#[derive(Debug)]
pub struct Region {
    raw: Option<Box<Open>>,
    /// It ends on the thread on which it began.
    here: PhantomData<*const ()>,
}

struct Open {
    raw: RawRegion,
    _name: CString,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Open")
    }
}

impl Region {
    /// Begins one of the whole process.
    pub fn begin(name: &str) -> Self {
        Self::begin_in(Scope::WholeProcess, name)
    }

    /// Begins one of the calling thread.
    pub fn this_thread(name: &str) -> Self {
        Self::begin_in(Scope::ThisThread, name)
    }

    fn begin_in(scope: Scope, name: &str) -> Self {
        let raw = library().map(|api| {
            let name = c_name(name);
            let raw = RawRegion { name: std::ptr::null(), scope: 0, state: 0, own: [0; 14] };
            let mut open = Box::new(Open { raw, _name: name });
            // SAFETY: the region is valid for writes; the name ends with NUL and lives as long as the region.
            unsafe { (api.begin)(&raw mut open.raw, open._name.as_ptr(), scope as u32) };
            open
        });
        Self { raw, here: PhantomData }
    }

    /// Ends it; `operations` were performed, or 0.
    pub fn end(mut self, operations: u64) {
        self.finish(operations);
    }

    fn finish(&mut self, operations: u64) {
        if let (Some(api), Some(mut open)) = (library(), self.raw.take()) {
            // SAFETY: the region was begun above, is not ended, and its name is alive.
            unsafe { (api.end)(&raw mut open.raw, c_long::try_from(operations).unwrap_or(c_long::MAX)) };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.finish(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_library_a_function_runs_once() {
        let mut calls = 0;
        measure("calls", || {
            calls += 1;
            1
        });
        assert_eq!((calls, operations(12)), (1, 12));
        Region::begin("nothing").end(1);
        drop(Region::this_thread("nothing"));
    }

    #[test]
    fn names_end_at_a_nul() {
        assert_eq!(c_name("a\0b").as_bytes(), b"a");
    }
}
