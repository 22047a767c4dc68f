//! The in-target unwinder in programs with objects that lack unwind tables. Generated programs keep their own
//! return addresses, and `preload/test/unwind_check.c` compares each stack with these.

mod workshop;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use workshop::{Outcome, Workshop, succeed};

const WITHOUT: &str = "-fno-asynchronous-unwind-tables -fno-unwind-tables";

/// One object's flags, and whether it has tables.
struct Object {
    flags: &'static str,
    tabled: bool,
}

const fn object(flags: &'static str, tabled: bool) -> Object {
    Object { flags, tabled }
}

/// Half and half: what an object calls lies mostly in another one.
const OBJECTS: [Object; 10] = [
    object("-O2", true),
    object("-O2 -fomit-frame-pointer", false),
    object("-O3 -mavx2", true),
    object("-Os -fomit-frame-pointer", false),
    object("-O2", true),
    object("-O3 -mavx2 -fomit-frame-pointer", false),
    object("-Os", true),
    object("-O2 -fno-omit-frame-pointer", false),
    object("-O1 -fno-omit-frame-pointer", true),
    object("-O0 -fstack-protector-strong -fcf-protection", false),
];
const FUNCTIONS: usize = 200;

/// A multiplicative generator: the same program in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }
}

/// The text of function `number`: what makes compilers lay out frames in different ways, by chance.
fn function(number: usize, dice: &mut Dice) -> String {
    let mut before = String::new();
    let mut after = String::new();
    match dice.below(6) {
        0 => before.push_str("    volatile char room[24]; room[0] = (char)a; KEEP(room);\n"),
        1 => before.push_str("    volatile char room[600]; room[0] = (char)a; KEEP(room);\n"),
        2 => before.push_str("    volatile char room[9000]; room[0] = (char)a; KEEP(room);\n"),
        _ => {}
    }
    match dice.below(8) {
        0 => before.push_str("    _Alignas(64) volatile char aligned[64]; aligned[3] = (char)b; KEEP(aligned);\n"),
        1 => before.push_str("    wide vector[2] = {{(double)a, 1, 2, 3}, {4, 5, 6, (double)b}}; KEEP(vector);\n"),
        _ => {}
    }
    if dice.one_in(6) {
        before.push_str("    char *grown = __builtin_alloca((size_t)(a & 63) + 16); KEEP(grown);\n");
    }
    if dice.one_in(3) {
        for i in 0..7 {
            writeln!(before, "    long kept{i} = a * {} ^ b >> {i}; HOLD(kept{i});", 3 + i).expect("text");
            writeln!(after, "    r += kept{i} * {};", 7 + i).expect("text");
        }
    }
    let callee = |dice: &mut Dice| match dice.below(3) {
        0 => format!("all[{}u % FUNCTIONS](w, r, a)", dice.below(1000)),
        1 => "all[throw_dice(w, FUNCTIONS)](w, b, r)".to_owned(),
        _ => format!("f{}(w, r ^ a, b)", dice.below(FUNCTIONS)),
    };
    let size = 8 + dice.below(100);
    let mut calls = String::new();
    for _ in 0..1 + dice.below(2) {
        let call = callee(dice);
        match dice.below(7) {
            0 => writeln!(calls, "    for (int i = 0; i < 3; i++) if (GO(w)) r += {call};"),
            1 => writeln!(
                calls,
                "    switch (throw_dice(w, 9)) {{\n    case 0: r += 5; break;\n    case 1: ALLOCATE(r & 31); break;\n    \
                 case 2: if (GO(w)) r += {call}; break;\n    case 3: r ^= a; break;\n    case 4: ALLOCATE(100); break;\n    \
                 case 5: if (GO(w)) r -= {}; break;\n    case 6: r *= 3; ALLOCATE(7); break;\n    case 7: r = -r; break;\n    \
                 default: if (GO(w)) r -= {call} * 3;\n    }}",
                callee(dice)
            ),
            2 => writeln!(calls, "    r += variadic_{number}(w, 3, a, b, r);"),
            3 => writeln!(calls, "    r += many_{}(w, a, b, r, 4, 5, 6, 7, 8, r + 9);", dice.below(FUNCTIONS)),
            4 => writeln!(
                calls,
                "    {{ jmp_buf here, *volatile outer = w->leave; volatile unsigned long depth = shadow_stack.depth;\n    \
                 volatile long saved = r;\n    w->leave = &here;\n    if (setjmp(here) == 0) {{ if (GO(w)) saved += {call}; }}\n    \
                 w->leave = outer; shadow_stack.depth = depth; r = saved; }}"
            ),
            5 => writeln!(calls, "    if (__builtin_expect(throw_dice(w, 30) == 0, 0)) {{ ALLOCATE(900); r += cold(w, r); }}"),
            _ => writeln!(calls, "    if (GO(w)) r += {call};"),
        }
        .expect("text");
        if dice.one_in(2) {
            writeln!(calls, "    ALLOCATE({});", size + 3).expect("text");
        }
    }
    let early =
        if dice.one_in(3) { "    if (w->left <= 0 || shadow_stack.depth > DEEPEST) return a ^ b;\n" } else { "" };
    let leave = if dice.one_in(12) {
        "    if (w->leave != NULL && throw_dice(w, 8) == 0) longjmp(*w->leave, 1);\n"
    } else {
        ""
    };
    let (first, second) = (dice.below(FUNCTIONS), dice.below(FUNCTIONS));
    format!(
        "APART long f{number}(struct walk *w, long a, long b) {{\n{early}    long r = a * 3 + b;\n    ENTER;\n{before}    \
         ALLOCATE({size});\n{calls}{leave}{after}    LEAVE;\n    return r;\n}}\n\n\
         APART long variadic_{number}(struct walk *w, int n, ...) {{\n    ENTER;\n    va_list list;\n    va_start(list, n);\n    \
         long r = 0;\n    for (int i = 0; i < n; i++) r += va_arg(list, long);\n    ALLOCATE(r & 63);\n    \
         if (GO(w)) r += f{first}(w, r, r + 1);\n    va_end(list);\n    LEAVE;\n    return r;\n}}\n\n\
         APART long many_{number}(struct walk *w, long a, long b, long c, long d, long e, long f, long g, long h, long i) {{\n    \
         ENTER;\n    long r = a + b * 2 + c + d + e + f + g + h * 3;\n    ALLOCATE(r & 127);\n    if (GO(w)) r += f{second}(w, i, r);\n    \
         LEAVE;\n    return r ^ i;\n}}\n\n"
    )
}

/// What all objects share.
fn header() -> String {
    let mut text = String::from(
        "#include <setjmp.h>\n#include <stdarg.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <stdint.h>\n\
         #define DEEPEST 60\n\
         #ifdef __clang__\n#define APART __attribute__((noinline))\n#else\n#define APART __attribute__((noipa))\n#endif\n\
         typedef double wide __attribute__((vector_size(32)));\n\
         struct walk { long left; uint64_t seed; jmp_buf *leave; };\n\
         extern struct { unsigned long depth; void *pc[1000]; } shadow_stack;\n\
         #define KEEP(x) __asm__ volatile(\"\" : : \"r\"(x) : \"memory\")\n\
         #define HOLD(x) __asm__ volatile(\"\" : \"+r\"(x))\n\
         #define ENTER (shadow_stack.pc[shadow_stack.depth++] = __builtin_return_address(0))\n\
         #define LEAVE (*(volatile unsigned long *)&shadow_stack.depth)--\n\
         #define GO(w) ((w)->left-- > 0 && shadow_stack.depth < DEEPEST)\n\
         #define ALLOCATE(n) do { void *block_ = malloc((size_t)(n) + 1); KEEP(block_); free(block_); } while (0)\n\
         unsigned throw_dice(struct walk *w, unsigned sides);\n\
         long cold(struct walk *w, long n);\n",
    );
    writeln!(text, "#define FUNCTIONS {FUNCTIONS}u\nextern long (*const all[FUNCTIONS])(struct walk *, long, long);")
        .expect("text");
    for n in 0..FUNCTIONS {
        writeln!(
            text,
            "long f{n}(struct walk *w, long a, long b);\nlong variadic_{n}(struct walk *w, int n, ...);\n\
             long many_{n}(struct walk *w, long, long, long, long, long, long, long, long, long);"
        )
        .expect("text");
    }
    text
}

const MAIN: &str = r#"
unsigned throw_dice(struct walk *w, unsigned sides) {
    w->seed = w->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(w->seed >> 33) % sides;
}

APART __attribute__((cold)) long cold(struct walk *w, long n) {
    ENTER;
    ALLOCATE(n & 255);
    long r = GO(w) ? all[throw_dice(w, FUNCTIONS)](w, n, 1) : 0;
    LEAVE;
    return r;
}

__typeof__(shadow_stack) shadow_stack;

int main(void) {
    struct walk w = {.seed = 42};
    long sum = 0;
    for (volatile int i = 0; i < 400; i++) {
        ALLOCATE(10); /* the checker learns what lies further out */
        w.left = 150;
        w.leave = NULL;
        sum += all[throw_dice(&w, FUNCTIONS)](&w, i, sum);
        shadow_stack.depth = 0;
    }
    printf("%ld\n", sum);
    return 0;
}
"#;

/// Compiles the parts of the program.
fn compile(workshop: &Workshop, compiler: &str, name: &str) -> Vec<PathBuf> {
    let directory = workshop.path(name);
    fs::create_dir_all(&directory).expect("directory");
    fs::write(directory.join("all.h"), header()).expect("header");
    let mut dice = Dice(7);
    let mut objects = vec![directory.join("main.c")];
    let functions: Vec<String> = (0..FUNCTIONS).map(|n| format!("f{n}")).collect();
    let table = format!("long (*const all[FUNCTIONS])(struct walk *, long, long) = {{{}}};\n", functions.join(", "));
    fs::write(&objects[0], format!("#include \"all.h\"\n{table}{MAIN}")).expect("main");
    for (i, object) in OBJECTS.iter().enumerate() {
        let source = directory.join(format!("part{i}.c"));
        let mut text = String::from("#include \"all.h\"\n");
        (0..FUNCTIONS).filter(|n| n % OBJECTS.len() == i).for_each(|n| text.push_str(&function(n, &mut dice)));
        fs::write(&source, text).expect("source");
        let output = directory.join(format!("part{i}.o"));
        let mut command = Command::new(compiler);
        command.args(["-std=gnu11", "-w", "-fno-builtin-malloc", "-c"]).args(object.flags.split(' '));
        if !object.tabled {
            command.args(WITHOUT.split(' '));
        }
        succeed(command.arg("-o").arg(&output).arg(&source));
        objects.push(output);
    }
    objects
}

fn link(compiler: &str, objects: &[PathBuf], name: &str, more: &[&str]) -> PathBuf {
    let output = objects[0].with_file_name(name);
    let mut command = Command::new(compiler);
    let flags = ["-std=gnu11", "-O1", "-w", "-Wl,--build-id=sha1", "-Wl,--export-dynamic-symbol=shadow_stack"];
    succeed(command.args(flags).args(more).arg("-o").arg(&output).args(objects));
    output
}

/// No stack that does not say that it is cut is wrong, and no stack is wrong before it is cut.
#[track_caller]
fn assert_equal_stacks(outcome: &Outcome, percent_whole: u64) {
    let shown: Vec<&str> = ["different", "strayed", "cut"]
        .into_iter()
        .flat_map(|kind| outcome.text.lines().filter(move |line| line.starts_with(kind)).take(4))
        .collect();
    let shown = shown.join("\n");
    println!("{} of {} frames where cut", outcome.kept, outcome.frames);
    assert!(outcome.compared >= 50_000, "only {} stacks\n{shown}", outcome.compared);
    assert_eq!((outcome.different, outcome.strayed), (0, 0), "of {}\n{shown}", outcome.compared);
    assert!(
        outcome.equal * 100 >= outcome.compared * percent_whole,
        "{} of {}\n{shown}",
        outcome.equal,
        outcome.compared
    );
}

/// With symbols; and without, where it is not known how many functions there are, nor where each one ends.
fn half_and_half(compiler: &str) {
    let workshop = Workshop::shared();
    let name = format!("{compiler}-halves");
    let objects = compile(workshop, compiler, &name);
    let program = link(compiler, &objects, "program", &[]);
    assert_equal_stacks(&workshop.check::<&str>(&name, 1, &program, &[], ""), 99);
    let stripped = link(compiler, &objects, "stripped", &["-s"]);
    assert_equal_stacks(&workshop.check::<&str>(&format!("{name}-stripped"), 1, &stripped, &[], ""), 50);
}

#[test]
fn half_of_the_objects_have_no_tables() {
    half_and_half("gcc");
    half_and_half("clang");
}
