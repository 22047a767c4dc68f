//! Counts equal the truth, for each entry point: a target makes N known calls and says what it did. A run of none is
//! taken off, so that what the C library does at start-up does not count.

use std::path::PathBuf;
use std::sync::OnceLock;

use harness::{Case, Counts, program};

const ROUNDS: &str = "700";

/// What a program counts that makes no call of its own, under stat and under record: the same for each of its cases.
type StartUp = OnceLock<(Counts, Counts)>;

fn exact(start_up: &StartUp, program: &PathBuf, case: &str) {
    // Where all calls fail, or none is made, there is nothing to record.
    let of = |rounds: &str| Case::new(program).args([case, rounds]).may_say("allocated nothing; ").prints_addresses();
    let many = of(ROUNDS).three_ways();
    let (stat, record) = start_up.get_or_init(|| (of("0").stat().counts(), of("0").record().counts()));
    let truth = Counts::truth(&many.bare.out());
    for (way, counts) in [("stat", &many.stat.counts() - stat), ("record", &many.record.counts() - record)] {
        assert_eq!(counts.sums(), truth.counts, "{way}");
        if !truth.family.is_empty() {
            let calls = counts.families.get(&truth.family).copied().unwrap_or_default();
            assert_eq!(calls, (truth.counts.allocations, truth.counts.allocated_bytes), "{way}: {:?}", counts.families);
        }
    }
    assert_eq!(many.record.losses(), (0, 0));
}

macro_rules! exact {
    ($program:expr; $($case:ident)*) => {
        static START_UP: super::StartUp = super::StartUp::new();
        $(
            #[test]
            fn $case() {
                super::exact(&START_UP, &$program, stringify!($case));
            }
        )*
    };
}

mod c {
    exact! { super::program("exact");
        malloc malloc_zero malloc_kept malloc_huge malloc_mapped
        calloc calloc_zero calloc_overflow
        realloc realloc_in_place realloc_moved realloc_mapped realloc_to_zero realloc_huge
        reallocarray reallocarray_overflow reallocarray_to_zero
        aligned_alloc memalign posix_memalign posix_memalign_refused valloc pvalloc
        free_null
    }
}

mod cpp {
    exact! { super::program("exact_new");
        new new_zero new_array nothrow nothrow_huge sized aligned placement constructor_throws
    }
}

/// musl's calloc, posix_memalign, memalign, valloc and reallocarray call other functions of its by their public names.
/// It has no pvalloc, and its realloc to 0 bytes gives a block.
mod musl {
    use harness::program_as;

    exact! { program_as("exact", "exact-musl", "musl-gcc", &["-Dpvalloc=valloc"]);
        malloc malloc_zero malloc_kept malloc_huge malloc_mapped
        calloc calloc_zero calloc_overflow
        realloc realloc_in_place realloc_moved realloc_mapped realloc_huge
        reallocarray reallocarray_overflow
        aligned_alloc memalign posix_memalign posix_memalign_refused valloc
        free_null
    }
}
