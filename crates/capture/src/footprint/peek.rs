//! Words of another process's memory, at many addresses at once.

/// Addresses that the kernel takes together (`IOV_MAX`).
const TOGETHER: usize = 1024;

/// `N` words at each of these addresses, in their order; None where they cannot be read.
pub fn words<const N: usize>(pid: i32, addresses: &[u64]) -> Vec<Option<[u64; N]>> {
    let mut found = Vec::with_capacity(addresses.len());
    while found.len() < addresses.len() {
        let wanted = &addresses[found.len()..][..TOGETHER.min(addresses.len() - found.len())];
        let mut read = vec![[0u64; N]; wanted.len()];
        let bytes = size_of::<[u64; N]>();
        let local = libc::iovec { iov_base: read.as_mut_ptr().cast(), iov_len: read.len() * bytes };
        let remote = |&address: &u64| libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes };
        let remote: Vec<libc::iovec> = wanted.iter().map(remote).collect();
        // SAFETY: the local vector is the memory of `read`, of that length; the kernel checks the remote ones.
        let length = unsafe {
            libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0)
        };
        let whole = usize::try_from(length).unwrap_or(0) / bytes;
        found.extend(read.into_iter().take(whole).map(Some));
        // The one where it stopped cannot be read.
        if whole < wanted.len() {
            found.push(None);
        }
    }
    found
}
