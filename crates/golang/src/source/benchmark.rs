//! What a line of a benchmark's function is a part of: its timer and its loops are in the source.

use super::{At, Function, GoSource};
use crate::join::Part;

/// The type of a benchmark's parameter.
const BENCHMARK: &str = "*testing.B";

impl GoSource {
    /// Part of a benchmark that the line belongs to, by the benchmark's function around it; [`Part::Operation`] where
    /// the source does not show it.
    pub fn part(&self, line: u32) -> Part {
        let Some((function, b)) = self.benchmark(line) else { return Part::Operation };
        let [looping, counting] = self.loops(function, &b);
        let loops = || looping.iter().chain(&counting);
        let inside = |at: &At| loops().any(|(from, to)| (from..=to).contains(&at));
        let before = |at: &At| at.0 < line;
        // What runs others is not measured itself.
        if !self.calls(function, &b, "Run").is_empty() {
            return Part::Untimed;
        }
        // What stands before the last reset is in no figure.
        if self.calls(function, &b, "ResetTimer").iter().any(|at| !before(at) && at.0 > line && !inside(at)) {
            return Part::Untimed;
        }
        let stops = self.calls(function, &b, "StopTimer").into_iter().map(|at| (at, true));
        let starts = self.calls(function, &b, "StartTimer").into_iter().map(|at| (at, false));
        let mut timers: Vec<(At, bool)> = stops.chain(starts).filter(|(at, _)| before(at)).collect();
        timers.sort_unstable();
        if timers.last().is_some_and(|&(_, stopped)| stopped) {
            return Part::Untimed;
        }
        if hold(&looping, line) || hold(&counting, line) {
            return Part::Operation;
        }
        match (looping.first(), counting.last()) {
            // Its first call resets the timer, its last one stops it.
            (Some(_), _) => Part::Untimed,
            (None, Some((from, _))) if line < from.0 => Part::Growing,
            _ => Part::Operation,
        }
    }

    /// Whether the line is in a loop over a benchmark's operations.
    pub fn is_in_loop(&self, line: u32) -> bool {
        let Some((function, b)) = self.benchmark(line) else { return false };
        self.loops(function, &b).iter().any(|loops| hold(loops, line))
    }

    /// The loops of a benchmark's function over `b.Loop`, and those over `b.N`.
    fn loops(&self, function: &Function, b: &str) -> [Vec<(At, At)>; 2] {
        ["Loop", "N"].map(|over| self.loops_over(function, &[b, ".", over]))
    }

    /// The benchmark's function around the line, with the name of its parameter.
    fn benchmark(&self, line: u32) -> Option<(&Function, String)> {
        let functions = self.functions_at((line, u32::MAX));
        functions.into_iter().find_map(|function| {
            let (name, _) = function.parameters.iter().find(|(_, of)| of == BENCHMARK)?;
            Some((function, name.clone()))
        })
    }
}

/// Whether one of the loops has the line.
fn hold(loops: &[(At, At)], line: u32) -> bool {
    loops.iter().any(|(from, to)| (from.0..=to.0).contains(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
package p

func BenchmarkReset(b *testing.B) {
	all := make([][]byte, b.N)
	for i := range b.N {
		all[i] = make([]byte, 8)
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		work(all[i])
	}
}

func BenchmarkStop(bench *testing.B) {
	all := make([]int, bench.N)
	for range bench.N {
		bench.StopTimer()
		x := make([]int, 100)
		bench.StartTimer()
		work(x)
	}
	work(nil)
}

func BenchmarkLoop(b *testing.B) {
	x := make([]int, 100)
	b.Run(\"a\", func(b *testing.B) {
		y := make([]int, 100)
		for b.Loop() {
			work(y)
		}
		work(x)
	})
}

func BenchmarkTurns(b *testing.B) {
	var x []int
	b.StopTimer()
	for i := 0; i < b.N; i++ {
		x = make([]int, i)
		b.StartTimer()
		work(x)
		b.StopTimer()
	}
}

func work(x []int) { kept = x }

func BenchmarkLine(b *testing.B) { for b.Loop() { work(nil) } }
";

    #[test]
    fn lines_are_operations_set_up_or_untimed() {
        let source = GoSource::parse(TEXT.to_owned());
        for (line, expected) in [
            (4, Part::Untimed),
            (6, Part::Untimed),
            (10, Part::Operation),
            (15, Part::Growing),
            (18, Part::Untimed),
            (20, Part::Operation),
            (22, Part::Operation),
            (28, Part::Untimed),
            (30, Part::Operation),
            (32, Part::Untimed),
            // It runs others, and is not measured itself.
            (25, Part::Untimed),
            (40, Part::Untimed),
            (42, Part::Operation),
            (47, Part::Operation),
            (49, Part::Operation),
            (1, Part::Operation),
        ] {
            assert_eq!(source.part(line), expected, "{line}");
        }
        let in_loops: Vec<u32> = (1..50).filter(|&line| source.is_in_loop(line)).collect();
        assert_eq!(in_loops, [5, 6, 7, 9, 10, 11, 16, 17, 18, 19, 20, 21, 29, 30, 31, 39, 40, 41, 42, 43, 44, 49]);
    }
}
