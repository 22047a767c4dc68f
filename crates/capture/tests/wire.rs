//! Both sides of the wire agree: every size, offset and number of `wire.rs` is what a C compiler makes of
//! `preload/base/wire.h`, `preload/base/wire_attachment.h`, `preload/base/wire_guard.h` and `preload/hook/ask.h`.

use mallow_capture::wire::{
    self, ask, attachment, control, end, guard, module, own, patches, process, record, result, sampling, slot, stack,
    thread, unreached,
};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// A C expression, and what this side takes it for.
fn table() -> Vec<(String, u64)> {
    let mut rows: Vec<(String, u64)> = Vec::new();
    let mut number = |expression: &str, value: u64| rows.push((expression.to_owned(), value));
    number("MALLOW_WIRE_VERSION", wire::VERSION.into());
    number("MALLOW_CONTROL_MAGIC", wire::CONTROL_MAGIC.into());
    number("MALLOW_PROCESS_MAGIC", wire::PROCESS_MAGIC.into());
    number("sizeof(MALLOW_DIR_VARIABLE) - 1", wire::DIR_VARIABLE.len() as u64);
    number("MALLOW_MODE_COUNT", wire::MODE_COUNT.into());
    number("MALLOW_MODE_TRACE", wire::MODE_TRACE.into());
    number("MALLOW_MODE_IDLE", wire::MODE_IDLE.into());
    number("MALLOW_MODE_SAMPLE", wire::MODE_SAMPLE.into());
    number("MALLOW_OVER_LEFT", wire::OVER_LEFT.into());
    number("MALLOW_OVER_FILTER", wire::OVER_FILTER.into());
    number("MALLOW_OVER_FOREIGN", wire::OVER_FOREIGN.into());
    number("MALLOW_MODE_DORMANT", wire::MODE_DORMANT.into());
    number("MALLOW_SAMPLE_LOOK", wire::SAMPLE_LOOK);
    number("MALLOW_PERIOD_MOST", wire::PERIOD_MOST);
    number("MALLOW_FLAG_CUT", wire::FLAG_CUT.into());
    number("MALLOW_EXACT_PC", wire::EXACT_PC);
    number("MALLOW_SLOT_FREE", slot::STATE_FREE);
    number("MALLOW_SLOT_BUSY", slot::STATE_BUSY);
    number("MALLOW_SLOT_LIVE", slot::STATE_LIVE);
    number("MALLOW_SAMPLE_INHERITED", slot::INHERITED.into());
    number("MALLOW_END_FREED", end::FREED.into());
    number("MALLOW_END_REALLOCATED", end::REALLOCATED.into());
    number("MALLOW_OWN_SLOTS", own::SLOTS);
    number("sizeof(struct mallow_own)", 8 * own::WORDS as u64);
    number("offsetof(struct mallow_own, range)", 8);
    number("sizeof(struct mallow_own_range)", 16);
    number("offsetof(struct mallow_own_range, bytes)", 8);
    number("MALLOW_SELF_CHECK", wire::SELF_CHECK.into());
    number("MALLOW_SCAN", wire::SCAN.into());
    number("MALLOW_INSIDE", wire::INSIDE.into());
    number("MALLOW_ASK_MAGIC", ask::MAGIC_VALUE.into());
    number("MALLOW_ASK_WAITS", ask::WAITS.into());
    number("MALLOW_ASK_NOTHING", ask::NOTHING.into());
    number("MALLOW_ASK_ANSWERED", ask::ANSWERED.into());
    number("MALLOW_ASK_PATCHED", ask::PATCHED.into());
    number("MALLOW_ASK_FAILED", ask::FAILED.into());
    number("MALLOW_ASK_GIVEN_UP", ask::GIVEN_UP.into());
    number("MALLOW_ASK_THREADS", ask::THREADS.into());
    number("MALLOW_ASK_CHANGED", ask::CHANGED.into());
    number("MALLOW_STUB_COUNT", ask::STUBS as u64);
    number("MALLOW_ASK_LIBRARIES", ask::LIBRARIES as u64);
    number("MALLOW_PATCHES_MAGIC", patches::MAGIC_VALUE.into());
    number("MALLOW_EXIT_NOT", wire::EXIT_NOT.into());
    number("MALLOW_EXIT_EXEC", wire::EXIT_EXEC.into());
    number("MALLOW_ORIGIN_EXEC", wire::ORIGIN_EXEC.into());
    number("MALLOW_ENDING_EXIT", wire::ENDING_EXIT.into());
    number("MALLOW_ENDING_AT_ONCE", wire::ENDING_AT_ONCE.into());
    number("MALLOW_ENDING_EXEC", wire::ENDING_EXEC.into());
    number("MALLOW_EXIT_WAITS", wire::EXIT_WAITS.into());
    number("MALLOW_EXIT_GO_ON", wire::EXIT_GO_ON.into());
    number("MALLOW_ORIGIN_ATTACH", wire::ORIGIN_ATTACH.into());
    number("MALLOW_ATTACHMENT_MAGIC", attachment::MAGIC_VALUE.into());
    number("MALLOW_LATE", attachment::LATE_MOST as u64);
    number("MALLOW_LATE_MEMORY", attachment::MEMORY as u64);
    number("MALLOW_INSIDE_MOST", attachment::INSIDE_MOST as u64);
    number("MALLOW_STUBS", attachment::STUBS as u64);
    number("MALLOW_PATCHED_MOST", attachment::PATCHED_MOST as u64);
    number("sizeof(struct mallow_patched)", attachment::PATCHED_BYTES as u64);
    number("MALLOW_ATTACHMENT_JOINED", attachment::JOINED.into());
    number("sizeof(struct mallow_attachment)", attachment::BYTES as u64);
    number("sizeof(struct mallow_inside)", attachment::INSIDE_BYTES as u64);
    number("sizeof(struct mallow_late)", attachment::ENTRY_BYTES as u64);
    number("sizeof((struct mallow_attachment){0}.directory)", attachment::DIRECTORY_BYTES as u64);
    for (field, offset) in [
        ("magic", attachment::MAGIC),
        ("version", attachment::VERSION),
        ("late", attachment::LATE),
        ("state", attachment::STATE),
        ("join", attachment::JOIN),
        ("leave", attachment::LEAVE),
        ("tls", attachment::TLS),
        ("arrival", attachment::ARRIVAL),
        ("socket", attachment::SOCKET),
        ("stub", attachment::STUB),
        ("patched", attachment::PATCHED),
        ("inside", attachment::INSIDE),
        ("entries", attachment::ENTRIES),
        ("directory", attachment::DIRECTORY),
    ] {
        number(&format!("offsetof(struct mallow_attachment, {field})"), offset as u64);
    }
    number("MALLOW_RESULT_MAGIC", result::MAGIC_VALUE.into());
    number("MALLOW_RESULT_BEGUN", result::BEGUN.into());
    number("MALLOW_RESULT_WARMUP", result::WARMUP.into());
    number("MALLOW_RESULT_RUN", result::MEASURED.into());
    number("MALLOW_RESULT_CHECK", result::CHECK.into());
    number("MALLOW_RESULT_PLANTED", result::PLANTED.into());
    number("MALLOW_RESULT_THIS_THREAD", result::THIS_THREAD.into());
    number("MALLOW_RESULT_RESTLESS", result::RESTLESS.into());
    number("MALLOW_RESULT_NAME_CUT", result::NAME_CUT.into());
    number("MALLOW_CHECK_ALLOCATIONS", result::CHECK_ALLOCATIONS);
    number("MALLOW_CHECK_BYTES", result::CHECK_BYTES);
    number("MALLOW_MAX_UNREACHED", unreached::MAX.into());
    number("MALLOW_UNREACHED_NOTED", unreached::NOTED.into());
    number("MALLOW_UNREACHED_WITHOUT", unreached::WITHOUT.into());
    number("MALLOW_UNREACHED_UNLINKED", unreached::UNLINKED.into());
    number("MALLOW_NO_CHILDREN", wire::NO_CHILDREN.into());
    number("MALLOW_EPOCH_OVER", wire::EPOCH_OVER);
    number("MALLOW_LARGE_RINGS", wire::LARGE_RINGS.into());
    number("MALLOW_MAX_MODULES", wire::MAX_MODULES.into());
    number("MALLOW_TABLE_WAIT_MS", wire::TABLE_WAIT_MS);
    number("MALLOW_DEPTH_LIMIT", wire::DEPTH_LIMIT.into());
    number("MALLOW_PROCESS_READY", wire::PROCESS_READY.into());
    number("MALLOW_PROCESS_CLOSED", wire::PROCESS_CLOSED.into());
    number("MALLOW_SETTING_PYTHON_MALLOC", wire::SETTING_PYTHON_MALLOC.into());
    number("MALLOW_SETTING_ZEND_MALLOC", wire::SETTING_ZEND_MALLOC.into());
    number("MALLOW_ORIGIN_FORK", wire::ORIGIN_FORK.into());
    number("MALLOW_MODULE_WANTED", wire::MODULE_WANTED.into());
    number("MALLOW_MODULE_READY", wire::MODULE_READY.into());
    number("MALLOW_MODULE_WITHOUT", wire::MODULE_WITHOUT.into());
    number("MALLOW_MODULE_LATE", wire::MODULE_LATE.into());
    number("MALLOW_THREAD_FREE", wire::THREAD_FREE.into());
    number("MALLOW_THREAD_OWNED", wire::THREAD_OWNED.into());
    number("MALLOW_OP_PAD", record::OP_PAD);
    number("MALLOW_OP_STACK", record::OP_STACK);
    number("MALLOW_OP_REALLOC_DONE", record::OP_REALLOC_DONE);
    number("MALLOW_OP_ALLOC", record::OP_ALLOC);
    number("MALLOW_FLAG_WIDE_SIZE", record::FLAG_WIDE_SIZE);
    number("MALLOW_FLAG_SAME", record::FLAG_SAME);
    number("MALLOW_FLAG_AGAIN", record::FLAG_AGAIN);
    number("MALLOW_GUARD", guard::GUARD.into());
    number("MALLOW_GUARD_EVERY", guard::EVERY.into());
    number("MALLOW_GUARD_ABORT", guard::ABORT.into());
    number("MALLOW_GUARD_LEAKS", guard::LEAKS.into());
    number("MALLOW_GUARD_CRASHES", guard::CRASHES.into());
    number("MALLOW_CRASH_NONE", guard::CRASH_NONE.into());
    number("MALLOW_CRASH_WRITTEN", guard::CRASH_WRITTEN.into());
    number("MALLOW_CRASH_ASKS", guard::CRASH_ASKS.into());
    number("MALLOW_CRASH_ANSWERED", guard::CRASH_ANSWERED.into());
    number("MALLOW_CRASH_REGISTERS", guard::CRASH_REGISTERS as u64);
    number("MALLOW_GUARD_SIZES", guard::SIZES);
    number("MALLOW_SUPPLIES", guard::SUPPLIES as u64);
    number("MALLOW_SUPPLY_SLOTS", guard::SUPPLY_SLOTS.into());
    number("MALLOW_GUARD_FINDINGS", guard::FINDINGS_MOST.into());
    number("MALLOW_GUARD_NOT", guard::NOT.into());
    number("MALLOW_GUARD_OFFERED", guard::OFFERED.into());
    number("MALLOW_GUARD_TAKEN", guard::TAKEN.into());
    number("MALLOW_GUARD_REFUSED", guard::REFUSED.into());
    number("MALLOW_GUARD_FILTERED", guard::FILTERED.into());
    number("MALLOW_GUARD_GIVEN_UP", guard::GIVEN_UP.into());
    number("MALLOW_GUARD_NO_ADDRESSES", guard::NO_ADDRESSES.into());
    number("MALLOW_ERROR_DOUBLE_FREE", guard::DOUBLE_FREE.into());
    number("MALLOW_ERROR_INTERIOR", guard::INTERIOR.into());
    number("MALLOW_ERROR_FOREIGN", guard::FOREIGN.into());
    number("MALLOW_ERROR_SLACK", guard::SLACK.into());
    number("MALLOW_ERROR_MISMATCH", guard::MISMATCH.into());
    number("MALLOW_OPERATION_MALLOC", guard::OPERATION_MALLOC.into());
    number("MALLOW_OPERATION_NEW", guard::OPERATION_NEW.into());
    number("MALLOW_OPERATION_NEW_ARRAY", guard::OPERATION_NEW_ARRAY.into());
    number("MALLOW_OPERATION_NEW_EITHER", guard::OPERATION_NEW_EITHER.into());
    number("MALLOW_FREEING_FREE", guard::FREEING_FREE.into());
    number("MALLOW_FREEING_REALLOC", guard::FREEING_REALLOC.into());
    number("MALLOW_FREEING_DELETE", guard::FREEING_DELETE.into());
    number("MALLOW_FREEING_DELETE_ARRAY", guard::FREEING_DELETE_ARRAY.into());
    number("MALLOW_OPERATORS_SEEN", guard::OPERATORS_SEEN.into());
    number("MALLOW_OPERATORS_REPLACED", guard::OPERATORS_REPLACED.into());
    number("MALLOW_OPERATORS_UNFIT", guard::OPERATORS_UNFIT.into());
    number("MALLOW_FOREIGN_STACK", guard::FOREIGN_STACK.into());
    number("MALLOW_FOREIGN_MODULE", guard::FOREIGN_MODULE.into());
    number("MALLOW_FOREIGN_UNMAPPED", guard::FOREIGN_UNMAPPED.into());
    number("MALLOW_FOREIGN_MAPPED", guard::FOREIGN_MAPPED.into());
    number("MALLOW_FAMILY_COUNT", wire::FAMILIES as u64);
    for (i, family) in mallow_profile::FAMILIES.iter().enumerate() {
        number(&format!("MALLOW_FAMILY_{}", family.to_uppercase()), i as u64);
    }
    let mut layout = |name: &str, bytes: Option<usize>, fields: &[(&str, usize)]| {
        if let Some(bytes) = bytes {
            rows.push((format!("sizeof(struct mallow_{name})"), bytes as u64));
        }
        for (field, offset) in fields {
            rows.push((format!("offsetof(struct mallow_{name}, {field})"), *offset as u64));
        }
    };
    layout(
        "guard",
        Some(guard::SIZE),
        &[
            ("state", guard::STATE),
            ("descriptor", guard::DESCRIPTOR),
            ("keeper", guard::KEEPER),
            ("beat", guard::BEAT),
            ("start", guard::START),
            ("bytes", guard::BYTES),
            ("guarded_offset", guard::GUARDED_OFFSET),
            ("guarded", guard::GUARDED),
            ("unguarded", guard::UNGUARDED),
            ("unfit", guard::UNFIT),
            ("wanted", guard::WANTED),
            ("findings", guard::FINDINGS),
            ("slots", guard::SLOTS),
            ("slots_bytes", guard::SLOTS_BYTES),
            ("supply", guard::SUPPLY),
            ("finding", guard::FINDING),
            ("fault", guard::FAULT),
            ("crash", guard::CRASH),
            ("operators", guard::OPERATORS),
            ("uncompared", guard::UNCOMPARED),
        ],
    );
    let (asked, done) = (guard::supply::ASKED, guard::supply::DONE);
    let ready = guard::supply::READY;
    layout("supply", Some(guard::supply::SIZE), &[("asked", asked), ("done", done), ("ready", ready)]);
    layout(
        "guard_finding",
        Some(guard::finding::SIZE),
        &[
            ("address", guard::finding::ADDRESS),
            ("at_ns", guard::finding::AT_NS),
            ("kind", guard::finding::KIND),
            ("tid", guard::finding::TID),
            ("stack", guard::finding::STACK),
            ("slot", guard::finding::SLOT),
            ("bytes", guard::finding::BYTES),
        ],
    );
    layout(
        "guard_crash",
        Some(guard::crash::SIZE),
        &[
            ("state", guard::crash::STATE),
            ("tid", guard::crash::TID),
            ("signal", guard::crash::SIGNAL),
            ("code", guard::crash::CODE),
            ("sender", guard::crash::SENDER),
            ("access", guard::crash::ACCESS),
            ("address", guard::crash::ADDRESS),
            ("at_ns", guard::crash::AT_NS),
            ("registers", guard::crash::REGISTERS),
        ],
    );
    layout(
        "guarded",
        Some(guard::guarded::SIZE),
        &[
            ("start", guard::guarded::START),
            ("freed_ns", guard::guarded::FREED_NS),
            ("free_tid", guard::guarded::FREE_TID),
            ("free_stack", guard::guarded::FREE_STACK),
            ("pages", guard::guarded::PAGES),
            ("operation", guard::guarded::OPERATION),
            ("touched", guard::guarded::TOUCHED),
        ],
    );
    layout("patches", Some(patches::BYTES), &[]);
    layout("area", Some(patches::AREA_BYTES), &[("address", 0), ("bytes", 8), ("offset", 16), ("reused", 24)]);
    layout(
        "write",
        Some(patches::WRITE_BYTES),
        &[("at", 0), ("before", 8), ("after", 16), ("function", 24), ("original", 32)],
    );
    layout(
        "hook",
        Some(40),
        &[("original", 0), ("usable", 8), ("family", 16), ("module_start", 24), ("module_end", 32)],
    );
    layout(
        "ask",
        Some(ask::BYTES),
        &[
            ("magic", ask::MAGIC),
            ("version", ask::VERSION),
            ("state", ask::STATE),
            ("pid", ask::PID),
            ("key", ask::KEY),
            ("maps_bytes", ask::MAPS_BYTES),
            ("error", ask::ERROR),
            ("stub", ask::STUB),
            ("library", ask::LIBRARY),
        ],
    );
    layout(
        "control",
        None,
        &[
            ("magic", control::MAGIC),
            ("version", control::VERSION),
            ("mode", control::MODE),
            ("flags", control::FLAGS),
            ("max_depth", control::MAX_DEPTH),
            ("reader_pid", control::READER_PID),
            ("root_pid", control::ROOT_PID),
            ("large_ring_words", control::LARGE_RING_WORDS),
            ("small_ring_words", control::SMALL_RING_WORDS),
            ("max_threads", control::MAX_THREADS),
            ("failed_processes", control::FAILED_PROCESSES),
            ("warmups", control::WARMUPS),
            ("runs", control::RUNS),
            ("operations", control::OPERATIONS),
            ("quiet_ms", control::QUIET_MS),
            ("epoch", control::EPOCH),
            ("doorbell", control::DOORBELL),
            ("asleep", control::ASLEEP),
            ("period", control::PERIOD),
            ("stack_bytes", control::STACK_BYTES),
            ("max_slots", control::MAX_SLOTS),
            ("max_ends", control::MAX_ENDS),
            ("reader", control::READER),
            ("ping", control::PING),
            ("pong", control::PONG),
            ("reader_start", control::READER_START),
            ("silent", control::SILENT),
            ("unreached_more", control::UNREACHED_MORE),
            ("unreached", control::UNREACHED),
            ("settle_ms", control::SETTLE_MS),
            ("asks", control::ASKS),
            ("guard_pages", control::GUARD_PAGES),
            ("guard_place", control::GUARD_PLACE),
            ("guard_alignment", control::GUARD_ALIGNMENT),
            ("guard_filters", control::GUARD_FILTERS),
            ("guard_keeper", control::GUARD_KEEPER),
        ],
    );
    layout(
        "unreached",
        Some(unreached::BYTES),
        &[("state", unreached::STATE), ("pid", unreached::PID), ("name", unreached::NAME)],
    );
    layout(
        "process",
        Some(process::BYTES),
        &[
            ("magic", process::MAGIC),
            ("version", process::VERSION),
            ("state", process::STATE),
            ("mode", process::MODE),
            ("pid", process::PID),
            ("parent_pid", process::PARENT_PID),
            ("origin", process::ORIGIN),
            ("serial", process::SERIAL),
            ("start_ns", process::START_NS),
            ("modules_offset", process::MODULES_OFFSET),
            ("threads_offset", process::THREADS_OFFSET),
            ("rings_offset", process::RINGS_OFFSET),
            ("max_threads", process::MAX_THREADS),
            ("large_ring_words", process::LARGE_RING_WORDS),
            ("small_ring_words", process::SMALL_RING_WORDS),
            ("modules", process::MODULES),
            ("threads", process::THREADS),
            ("generation", process::GENERATION),
            ("unrecorded", process::UNRECORDED),
            ("executable_len", process::EXECUTABLE_LEN),
            ("arguments_len", process::ARGUMENTS_LEN),
            ("sampling", process::SAMPLING),
            ("held", process::HELD),
            ("settings", process::SETTINGS),
            ("exit_state", process::EXIT_STATE),
            ("exit_sp", process::EXIT_SP),
            ("exit_thread", process::EXIT_THREAD),
            ("exit_signals", process::EXIT_SIGNALS),
            ("size_classes", process::SIZE_CLASSES),
            ("usable_sizes", process::USABLE_SIZES),
            ("own", process::OWN),
            ("text", process::TEXT),
        ],
    );
    layout(
        "sampling",
        Some(sampling::BYTES),
        &[
            ("slots_offset", sampling::SLOTS_OFFSET),
            ("ends_offset", sampling::ENDS_OFFSET),
            ("stacks_offset", sampling::STACKS_OFFSET),
            ("stacks_bytes", sampling::STACKS_BYTES),
            ("max_slots", sampling::MAX_SLOTS),
            ("max_ends", sampling::MAX_ENDS),
            ("exited", sampling::EXITED),
            ("over", sampling::OVER),
            ("guard", sampling::GUARD),
            ("mode", sampling::MODE),
            ("slots", sampling::SLOTS),
            ("period", sampling::PERIOD),
            ("stacks_used", sampling::STACKS_USED),
            ("begun", sampling::BEGUN),
            ("ended", sampling::ENDED),
            ("without_slot", sampling::WITHOUT_SLOT),
            ("without_stack", sampling::WITHOUT_STACK),
            ("missed", sampling::MISSED),
        ],
    );
    layout(
        "slot",
        Some(slot::BYTES),
        &[
            ("sequence", slot::SEQUENCE),
            ("address", slot::ADDRESS),
            ("size", slot::SIZE),
            ("began_ns", slot::BEGAN_NS),
            ("period", slot::PERIOD),
            ("tid", slot::TID),
            ("stack", slot::STACK),
            ("family", slot::FAMILY),
            ("flags", slot::FLAGS),
            ("id", slot::ID),
        ],
    );
    layout(
        "end",
        Some(end::BYTES),
        &[
            ("number", end::NUMBER),
            ("sample", end::SAMPLE),
            ("ended_ns", end::ENDED_NS),
            ("moved_to", end::MOVED_TO),
            ("tid", end::TID),
            ("stack", end::STACK),
            ("slot", end::SLOT),
            ("kind", end::KIND),
        ],
    );
    layout(
        "stack",
        Some(stack::BYTES),
        &[
            ("hash", stack::HASH),
            ("depth", stack::DEPTH),
            ("generation", stack::GENERATION),
            ("flags", stack::FLAGS),
            ("pc", stack::PC),
        ],
    );
    layout(
        "module",
        Some(module::BYTES),
        &[
            ("start", module::START),
            ("end", module::END),
            ("generation", module::GENERATION),
            ("status", module::STATUS),
            ("build_id_len", module::BUILD_ID_LEN),
            ("path_len", module::PATH_LEN),
            ("build_id", module::BUILD_ID),
            ("path", module::PATH),
        ],
    );
    layout(
        "thread",
        Some(thread::BYTES),
        &[
            ("owner", thread::OWNER),
            ("tid", thread::TID),
            ("head", thread::HEAD),
            ("lost", thread::LOST),
            ("ring_words", thread::RING_WORDS),
            ("tail", thread::TAIL),
            ("waiting", thread::WAITING),
            ("frees", thread::FREES),
            ("realloc_frees", thread::REALLOC_FREES),
            ("realloc_in_place", thread::REALLOC_IN_PLACE),
            ("realloc_moved", thread::REALLOC_MOVED),
            ("counter", thread::COUNTER),
        ],
    );
    layout(
        "result",
        Some(result::BYTES),
        &[
            ("magic", result::MAGIC),
            ("kind", result::KIND),
            ("pid", result::PID),
            ("tid", result::TID),
            ("flags", result::FLAGS),
            ("run", result::RUN),
            ("number", result::NUMBER),
            ("name_len", result::NAME_LEN),
            ("operations", result::OPERATIONS),
            ("allocations", result::ALLOCATIONS),
            ("bytes", result::ALLOCATED_BYTES),
            ("frees", result::FREES),
            ("reallocs_in_place", result::REALLOCS_IN_PLACE),
            ("reallocs_moved", result::REALLOCS_MOVED),
            ("unrecorded", result::UNRECORDED),
            ("descriptors_before", result::DESCRIPTORS_BEFORE),
            ("descriptors_after", result::DESCRIPTORS_AFTER),
            ("name", result::NAME),
        ],
    );
    rows.push(("sizeof(((struct mallow_module *)0)->path)".to_owned(), module::PATH_BYTES as u64));
    rows.push(("sizeof(((struct mallow_module *)0)->build_id)".to_owned(), module::BUILD_ID_BYTES as u64));
    rows
}

#[test]
fn every_number_is_the_headers() {
    let rows = table();
    let mut source = "#include \"base/wire.h\"\n#include \"base/wire_attachment.h\"\n#include \"base/wire_guard.h\"\n#include \"hook/ask.h\"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for (expression, _) in &rows {
        writeln!(source, "printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    source.push_str("return 0;\n}\n");
    let directory = tempfile::tempdir().unwrap();
    let (file, program) = (directory.path().join("wire.c"), directory.path().join("wire"));
    std::fs::write(&file, source).unwrap();
    let preload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../preload");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status =
        Command::new(compiler).arg("-std=c11").arg("-I").arg(preload).arg(&file).arg("-o").arg(&program).status();
    assert!(status.unwrap().success(), "the header does not compile");
    let output = Command::new(program).output().unwrap();
    let values: Vec<u64> = String::from_utf8(output.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(values.len(), rows.len());
    for ((expression, here), there) in rows.iter().zip(values) {
        assert_eq!(*here, there, "{expression}");
    }
}
