//! CVE-2020-35892, simple-slab 0.3.2: an index is not checked, and reads behind the slab.
use simple_slab::Slab;

fn main() {
    let mut slab = Slab::with_capacity(2);
    slab.insert(1u64);
    slab.insert(2u64);
    println!("{}", slab[2]);
}
