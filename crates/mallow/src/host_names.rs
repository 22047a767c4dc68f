//! How names of hosts become addresses.

/// A static command has glibc's look-ups in `/etc/hosts` and in DNS inside. For all else that `/etc/nsswitch.conf`
/// names (mdns, resolve, sssd, …), glibc would load the machine's plugin, and with it a second C library, of another
/// version perhaps: these are not consulted.
///
/// Call it before there are threads.
#[cfg(target_feature = "crt-static")]
pub fn settle() {
    use std::ffi::{CStr, c_char, c_int};

    unsafe extern "C" {
        /// `<nss.h>`: overrides a line of `/etc/nsswitch.conf`. 0: it is in force.
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    const HOSTS: &CStr = c"hosts";
    const SERVICES: &CStr = c"files dns";
    // SAFETY: both are strings that end with a NUL; glibc copies what it needs of them, and no thread looks up a name.
    let failed = unsafe { __nss_configure_lookup(HOSTS.as_ptr(), SERVICES.as_ptr()) };
    debug_assert_eq!(failed, 0, "glibc knows the database and both services");
}

/// Does nothing: the C library is the machine's own.
#[cfg(not(target_feature = "crt-static"))]
pub fn settle() {}
