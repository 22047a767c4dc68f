//! What the compiler says of one allocation.

use serde::{Deserialize, Serialize};

/// A place in a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Position {
    /// Absolute path of the source file, as debug information and profiles have it.
    pub file: String,
    /// Line in `file`, from 1.
    pub line: u32,
    /// Column in bytes, from 1; 0 where unknown.
    pub column: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A slice, by `make([]T, n)`.
    Make,
    /// A map, by `make(map[K]V)`.
    MakeMap,
    /// A channel, by `make(chan T)`.
    MakeChan,
    /// A variable, by `new(T)`.
    New,
    /// A variable with a value, by `new(x)`, from Go 1.26 on.
    NewValue,
    /// A composite literal whose address is taken: `&T{…}`.
    Composite,
    /// A slice literal: `[]T{…}`.
    SliceLiteral,
    /// A map literal: `map[K]V{…}`.
    MapLiteral,
    /// A function literal, with what it captures.
    Closure,
    /// The body of a loop over a function, which the function gets as a closure.
    LoopBody,
    /// A method as a value: `x.Method`.
    MethodValue,
    /// A value that is put into an interface.
    Boxed,
    /// A slice that grows.
    Append,
    /// A string that is put together: `a + b`.
    Concatenation,
    /// A conversion between a string and bytes or runes.
    Conversion,
    /// A variable, or a parameter, that was moved to the heap.
    Variable,
    /// The slice of a variadic call.
    Variadic,
    /// An allocation of any other form.
    Other,
}

/// Decision of the compiler on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value is allocated in the heap.
    Escapes,
    /// A variable that is allocated in the heap.
    Moved,
    /// The value is not allocated in the heap, as far as the compiler can say.
    DoesNotEscape,
}

/// One step of an escape flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowStep {
    /// Source position of the step.
    pub position: Position,
    /// Call sites through which the step was inlined, the innermost first; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inlined_at: Vec<Position>,
    /// Flow that the step is part of: `input ← ~r0`.
    pub flow: String,
    /// Form of the step, as the compiler names it: `assign`, `call parameter`, `interface-converted`, …
    pub how: String,
    /// The compiler's expression of the step.
    pub expression: String,
    /// Function that the step passes the value to, where a call of it was inlined; left out elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callee: Option<String>,
    /// The value goes to a method of an interface, or to a function value: the callee is not known. Left out where it
    /// is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_callee: bool,
}

/// Diagnostic of the compiler on one allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnostic {
    /// Import path of the package that was compiled.
    pub package: String,
    /// Function that the allocation was compiled into, as the compiler names it: `One`, `(*T).m`, `two.func1`; null
    /// where it does not name it.
    pub function: Option<String>,
    /// Source position of the allocation.
    pub position: Position,
    /// Call sites through which the allocation was inlined into `function`, the innermost first; left out where there
    /// are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inlined_at: Vec<Position>,
    /// Whether all positions are known: code that is inlined has them in `inlined_at`.
    #[serde(skip)]
    pub placed: bool,
    /// Form of the allocation.
    pub kind: Kind,
    /// The compiler's expression: `make([]byte, size)`, `&bytes.Buffer{...}`, `n`, `func literal`.
    pub what: String,
    /// The compiler's decision: heap or stack.
    pub verdict: Verdict,
    /// The escape flow, as far as the compiler says it.
    pub flow: Vec<FlowStep>,
    /// Reason for the decision, from the escape flow.
    pub reason: Reason,
    /// Facts on the source around the allocation.
    #[serde(skip)]
    pub surroundings: Surroundings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Surroundings {
    /// Whether others decide the parameters and results of the function: it is used as a value, or called through an
    /// interface.
    pub fixed_signature: bool,
    /// Whether callers store the result of the function by reference, as far as the compiler or the package's sources
    /// show it.
    pub stored_by_callers: bool,
    /// Whether the line adds to a text in a loop.
    pub adds_in_loop: bool,
    /// Whether the value is passed to a parameter of type any, which has no methods to call.
    pub passed_as_any: bool,
    /// Whether the way to the heap leads through an interface: a value there is a block of its own, as a pointer's is.
    pub in_interface: bool,
    /// What function literals assign of a variable that they capture.
    pub assigned_by_literals: Assigned,
}

/// What is assigned of a variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Assigned {
    #[default]
    Nothing,
    /// A field or an element: a part of a struct or an array, but of no pointer, slice or map.
    Part,
    Whole,
}

/// Reason why a value is in the heap: what the compiler's explanation comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// The value is larger than what a stack may hold.
    TooLarge,
    /// The size is not a constant.
    UnknownSize,
    /// The value is aligned to more than a stack is.
    Aligned,
    /// The caller gets the value.
    Returned,
    /// A function literal that lives longer refers to the variable.
    Captured,
    /// The body of a loop over a function refers to the variable, and the function may keep the body.
    CapturedByLoop,
    /// The value goes through a channel.
    Sent,
    /// The value is a key or a value of a map.
    InMap,
    /// The value is an element of a slice that grows.
    Appended,
    /// A function gets the value and lets it live longer.
    Passed {
        /// The call's function, as the compiler names it.
        callee: String,
        /// True: the function gets the value inside of an interface.
        interface: bool,
    },
    /// A method of an interface, or a function value, gets the value: nobody knows which function that is.
    PassedToUnknown {
        /// The call's method or function value, as the compiler names it.
        callee: String,
    },
    /// The value is assigned to something that is in the heap, or global.
    Stored {
        /// Expression that the value is assigned to.
        place: String,
    },
    /// An interface that is in the heap has the value, or a pointer to it.
    InInterface,
    /// Something that is in the heap refers to the value.
    PartOf {
        /// Expression that refers to the value.
        whole: String,
    },
    /// A variable that lives longer refers to the value.
    Outlived {
        /// Variable that lives longer.
        variable: String,
        /// Scope in which `variable` is declared.
        #[serde(default)]
        scope: Scope,
    },
    /// A part of the value refers to the value, and what refers to it goes where it may not be followed.
    InItself {
        /// Expression of the part that refers to the value.
        place: String,
    },
    /// A goroutine is started with the value.
    Goroutine,
    /// The call is deferred in a loop.
    Deferred,
    /// A goroutine is started with the value, or a call is deferred: the compiler says the same of both, and the source
    /// is not known.
    GoOrDefer,
    /// The compiler does not say.
    Unknown,
}

/// Scope of a variable that outlives what it refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The function, outside of the loop.
    Loop,
    /// The enclosing function.
    Function,
    /// Not known: the source does not show the declaration.
    #[default]
    Unknown,
}
