//! What would end mallow while the command runs, and must not: a file of the run directory that was cut short under
//! its mapping or has no room on a full file system (SIGBUS), and a limit of file sizes (SIGXFSZ).
//!
//! Both are handlers, not "ignore": exec takes them away, so that the command finds what mallow found.

use std::sync::Once;

const PAGE: usize = 4096;

/// SIGBUS: puts a page of zeros where a mapped file has none; the process ends only where that fails.
extern "C" fn missing_page(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo, whose address is that of the access. BUS_ADRERR comes from mapped
    // files alone, so what the new page replaces held nothing; mmap and sigaction are async-signal-safe system calls.
    unsafe {
        let page = ((*info).si_addr() as usize & !(PAGE - 1)) as *mut libc::c_void;
        let zeros = (*info).si_code == libc::BUS_ADRERR
            && libc::mmap(
                page,
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            ) != libc::MAP_FAILED;
        if !zeros {
            // The access comes again, and ends the process.
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// SIGXFSZ: does nothing, so that the write that was too large fails with EFBIG.
extern "C" fn too_large(_: libc::c_int) {}

/// Installs both handlers, once; later calls do nothing. A SIGXFSZ that mallow's caller ignores stays ignored.
pub fn survive() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: plain sigaction calls with valid pointers; zero is a valid value of the struct; see the handlers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = missing_page as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut before);
            if before.sa_sigaction != libc::SIG_IGN {
                action.sa_sigaction = too_large as *const () as usize;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(libc::SIGXFSZ, &action, std::ptr::null_mut());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::wire::Shared;

    #[test]
    fn a_file_cut_short_under_its_mapping_reads_as_zeros() {
        super::survive();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let shared = Shared::map(&file, 8192).unwrap();
        shared.set32(4096, 7);
        file.set_len(4096).unwrap();
        assert_eq!(shared.get32(4096), 0);
        shared.set32(4100, 9);
        assert_eq!(shared.get32(4100), 9);
    }
}
