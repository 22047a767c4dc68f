//! Counts equal the truth, for each entry point: a target makes N known calls and says what it did. A run of none is
//! taken off, so that what the C library does at start-up does not count.

use harness::{Case, Counts};

const ROUNDS: &str = "700";

fn exact(program: &str, case: &str) {
    // Where all calls fail, or none is made, there is nothing to record.
    let of = |rounds: &str| Case::target(program).args([case, rounds]).may_say("nothing was recorded").tells_places();
    let many = of(ROUNDS).three_ways();
    let (none_stat, none_record) = (of("0").stat(), of("0").record());
    let truth = Counts::truth(&many.bare.out());
    for (way, counts) in
        [("stat", &many.stat.counts() - &none_stat.counts()), ("record", &many.record.counts() - &none_record.counts())]
    {
        assert_eq!(counts.sums(), truth.counts, "{way}");
        if !truth.family.is_empty() {
            let calls = counts.families.get(&truth.family).copied().unwrap_or_default();
            assert_eq!(calls, (truth.counts.allocations, truth.counts.allocated_bytes), "{way}: {:?}", counts.families);
        }
    }
    assert_eq!(many.record.losses(), (0, 0));
}

macro_rules! exact {
    ($program:literal: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                super::exact($program, stringify!($case));
            }
        )*
    };
}

mod c {
    exact! { "exact":
        malloc malloc_zero malloc_kept malloc_huge malloc_mapped
        calloc calloc_zero calloc_overflow
        realloc realloc_in_place realloc_moved realloc_mapped realloc_to_zero realloc_huge
        reallocarray reallocarray_overflow reallocarray_to_zero
        aligned_alloc memalign posix_memalign posix_memalign_refused valloc pvalloc
        free_null
    }
}

mod cpp {
    exact! { "exact_new":
        new new_zero new_array nothrow nothrow_huge sized aligned placement constructor_throws
    }
}
