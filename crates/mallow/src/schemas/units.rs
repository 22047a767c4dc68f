//! Units of the numbers in the documents, by the names of their fields.

use serde_json::{Map, Value};

const BY_MEASURE: &str = "unit of the measure `by`";
const SHARE: &str = "share from 0 to 1";

/// Endings of names, the longer ones first.
const ENDINGS: &[(&str, &str)] = &[
    ("_unix_ms", "milliseconds since 1970-01-01 UTC"),
    ("_ms", "milliseconds"),
    ("_us", "microseconds"),
    ("_ns", "nanoseconds"),
    ("_bytes", "bytes"),
    ("_rss", "bytes"),
    ("_pss", "bytes"),
    ("_share", SHARE),
    ("_in_all", "count"),
    ("_samples", "samples"),
    ("_allocations", "allocations"),
];

/// Names that mean something else in one type or document, before [`NAMES`].
/// A document stands before the type where several have one of that name.
const OF_TYPE: &[(&str, &str, &str)] = &[
    ("Estimate", "value", "unit of the field that has the estimate"),
    ("Estimate", "low", "unit of the field that has the estimate"),
    ("Estimate", "high", "unit of the field that has the estimate"),
    ("Summary", "median", "unit of the field that has the summary"),
    ("Summary", "low", "unit of the field that has the summary"),
    ("Summary", "high", "unit of the field that has the summary"),
    ("MemoryPartRow", "low", "bytes"),
    ("MemoryPartRow", "high", "bytes"),
    ("RssOverTime", "values", "bytes"),
    ("RssOverTime", "highest", "bytes"),
    ("Bounds", "from", "bytes or milliseconds"),
    ("Bounds", "to", "bytes or milliseconds"),
    ("Bucket", "from", "bytes, milliseconds or allocations, by the list"),
    ("Bucket", "to", "bytes, milliseconds or allocations, by the list"),
    ("TreeRow", "functions", "index from 0"),
    ("StatRow", "frees", "blocks"),
    ("WatchLosses", "stacks", "samples"),
    ("WatchLosses", "picks", "allocations"),
    ("ThreadStacks", "stacks", "threads"),
    ("ThreadStacks", "ended", "stacks"),
    ("Cycle", "count", "cycles"),
    ("MallocTime", "least", SHARE),
    ("MallocTime", "most", SHARE),
    ("diff-1", "per", "divisor"),
    ("go-bench-1 Difference", "before", "unit of `unit`"),
    ("go-bench-1 Difference", "after", "unit of `unit`"),
    ("test-1 Difference", "before", "allocations"),
    ("Explained", "allocations", "allocations; per operation of a benchmark"),
    ("Explained", "bytes", "bytes; per operation of a benchmark"),
    ("Caller", "allocations", "allocations; per operation of a benchmark"),
    ("stat-1", "lost", "calls"),
    ("guard-1", "unsure", "frees"),
    ("Means", "before", "unit of `unit`"),
    ("Means", "after", "unit of `unit`"),
    ("Ranked", "found", "allocations"),
    ("guard-1", "lost", "errors"),
    ("guard-1", "suppressed", "errors"),
    ("watch-1", "growing", "sites"),
    ("Run", "bytes", "bytes per operation"),
    ("Run", "allocations", "allocations per operation"),
    ("Explanation", "change", "allocations"),
    ("Smaller", "before", "allocations"),
    ("Insight", "runs", "runs of frees"),
    ("Savings", "freed_by_others", "blocks"),
    ("Reconciliation", "counted", "allocations per operation"),
    ("Reconciliation", "on_lines", "allocations per operation"),
    ("Reconciliation", "with_reason", "allocations per operation"),
    ("Reconciliation", "unseen", "allocations per operation"),
    ("Reconciliation", "setup", "allocations"),
    ("Reconciliation", "first_operations", "allocations"),
    ("Reconciliation", "in_goroutines", "allocations"),
    ("Reconciliation", "growing", "allocations per operation"),
    ("Reconciliation", "untimed", "allocations per operation"),
    ("ProfileSums", "allocations", "blocks"),
    ("ProfileSums", "on_lines", "blocks"),
    ("ProfileSums", "with_reason", "blocks"),
    ("ProfileSums", "of_runtime", "blocks"),
    ("Reconciliation", "counted_bytes", "bytes per operation"),
    ("Reconciliation", "block_bytes", "bytes per operation"),
    ("Reconciliation", "shared_bytes", "bytes per operation"),
];

const NAMES: &[(&str, &[&str])] = &[
    ("allocations", &["allocations", "interpreted_allocations", "explained", "total_allocations", "now"]),
    (
        "blocks",
        &[
            "live",
            "peak",
            "frees",
            "temporary",
            "foreign_frees",
            "freed_by_others",
            "frees_of_others",
            "freed_before_next",
            "freed_in_runs",
            "kept",
            "growing",
            "heads",
            "held",
            "blocks",
            "lost_blocks",
            "reachable_blocks",
            "live_at_exec_blocks",
            "reported",
            "suppressed",
            "handed_over",
            "remaining",
            "cycles",
            "guarded",
            "unguarded",
            "unfit",
            "unsure",
        ],
    ),
    ("calls", &["reallocs_in_place", "reallocs_moved", "unrecorded"]),
    (
        "bytes",
        &[
            "bytes",
            "rss",
            "pss",
            "swap",
            "anonymous",
            "gap",
            "gap_low",
            "gap_high",
            "size",
            "usable",
            "smallest",
            "largest",
            "kept_slack",
            "freed_size",
            "allocated_alignment",
            "freed_alignment",
            "bytes_before",
            "bytes_now",
        ],
    ),
    ("bytes per hour", &["bytes_per_hour"]),
    ("byte-seconds", &["byte_seconds"]),
    ("bytes per operation", &["bytes_per_op"]),
    ("allocations per operation", &["allocs_per_op", "allocations_per_op"]),
    ("nanoseconds per operation", &["ns_per_op", "nanoseconds", "time"]),
    ("milliseconds", &["ms"]),
    ("samples", &["samples"]),
    (SHARE, &["share", "of_whole", "of_run", "chance", "confidence", "p"]),
    ("process id", &["pid", "parent_pid", "pids", "growing_pids"]),
    ("thread id", &["tid", "thread", "allocated_by", "freed_by"]),
    ("process image of the pid, from 0", &["serial"]),
    ("line number from 1", &["line"]),
    ("column from 1, in bytes", &["column"]),
    ("link-time address", &["address"]),
    ("number of the Common Weakness Enumeration", &["cwe"]),
    ("exit status", &["exit_status"]),
    ("signal number", &["ended_by"]),
    (
        BY_MEASURE,
        &[
            "before",
            "after",
            "change",
            "moved",
            "elsewhere",
            "value",
            "total",
            "place_total",
            "at_end",
            "values",
            "others",
            "shown",
            "hidden",
            "hidden_change",
            "estimate",
            "self_estimate",
            "cum_estimate",
        ],
    ),
    ("sites", &["sites"]),
    ("places", &["places", "growing_places", "places_growing_so_far", "places_judged", "places_grown_unsteadily"]),
    (
        "processes",
        &[
            "processes",
            "ended",
            "growing_processes",
            "processes_growing_so_far",
            "processes_judged",
            "processes_grown_unsteadily",
            "processes_grown_elsewhere",
            "grows_in",
            "searched",
            "left",
            "filtered",
            "foreign",
            "unsampled",
            "still_running",
        ],
    ),
    ("threads", &["threads"]),
    ("functions", &["functions", "nameless"]),
    ("stacks", &["stacks", "stacks_before", "stacks_now", "equal_stacks"]),
    ("rows", &["rows"]),
    ("pages", &["pinned_pages"]),
    ("arenas", &["arenas"]),
    ("addresses", &["addresses", "named", "located"]),
    ("events", &["lost", "events"]),
    ("records", &["damaged"]),
    ("profiles", &["sent", "rejected", "unknown", "waiting", "unsent", "merged"]),
    ("attempts", &["failed_attempts"]),
    ("operations", &["operations", "counted_operations"]),
    ("runs", &["runs"]),
    ("steps", &["growth_steps"]),
    ("buffers", &["grown_buffers"]),
    ("file descriptors", &["leaked_fds"]),
    ("expressions", &["one_of"]),
    ("version number", &["version"]),
    ("number of the run", &["run", "number"]),
    ("count", &["count", "times", "same", "passed_over", "shared_with", "picks"]),
    ("index from 0", &["recursive", "part", "highest_point"]),
    ("points", &["parts"]),
    ("unit of the metric", &["figure", "baseline", "lowest", "highest"]),
];

/// Adds `unit` to each number of a document's schema, by the name of its field and of the type that has it. A number of
/// an unknown name gets none.
pub fn add_units(schema: &mut Value, document: &str) {
    add(schema, document, document);
}

fn add(schema: &mut Value, document: &str, of_type: &str) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match (key.as_str(), value) {
                    ("properties", Value::Object(fields)) => add_to_fields(fields, document, of_type),
                    ("$defs", Value::Object(types)) => {
                        types.iter_mut().for_each(|(name, schema)| add(schema, document, name));
                    }
                    ("description" | "enum" | "const", _) => {}
                    (_, value) => add(value, document, of_type),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|schema| add(schema, document, of_type)),
        _ => {}
    }
}

fn add_to_fields(fields: &mut Map<String, Value>, document: &str, of_type: &str) {
    for (field, schema) in fields {
        if is_number(schema)
            && let Some(unit) = unit(document, of_type, field)
        {
            schema["unit"] = unit.into();
        }
        add(schema, document, of_type);
    }
}

fn unit(document: &str, of_type: &str, field: &str) -> Option<&'static str> {
    let names = [format!("{document} {of_type}"), of_type.to_owned()];
    let is = |name: &str| names.iter().any(|known| known == name);
    let special = OF_TYPE.iter().find(|(name, key, _)| is(name) && *key == field).map(|(.., unit)| *unit);
    let whole = || NAMES.iter().find(|(_, names)| names.contains(&field)).map(|(unit, _)| *unit);
    let ending = || ENDINGS.iter().find(|(ending, _)| field.ends_with(ending)).map(|(_, unit)| *unit);
    special.or_else(whole).or_else(ending)
}

/// Whether a field is a number, an estimate of one, or a list of numbers; null or not.
pub fn is_number(schema: &Value) -> bool {
    let of_type = |name: &str| match &schema["type"] {
        Value::String(one) => one == name,
        Value::Array(several) => several.iter().any(|one| one == name),
        _ => false,
    };
    let part_is = |key: &str| schema[key].as_array().is_some_and(|parts| parts.iter().any(is_number));
    of_type("integer")
        || of_type("number")
        || of_type("array") && (is_number(&schema["items"]) || part_is("prefixItems"))
        || part_is("anyOf")
        || schema["$ref"] == "#/$defs/Estimate"
        || schema["$ref"] == "#/$defs/Summary"
}
