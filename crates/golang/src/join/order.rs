//! Calls and expressions of a line, both in their order: which call is which expression's, where some expressions have
//! none.

/// Expressions that each call, in the order of code, may be: those that leave one for each call before and behind it.
/// `fits` has for each call the expressions that fit it, by their numbers in the order of the source. None where no
/// order has one for each.
pub fn in_order(fits: &[Vec<usize>]) -> Option<Vec<Vec<usize>>> {
    let mut earliest = Vec::with_capacity(fits.len());
    let mut after = None;
    for fit in fits {
        after = Some(fit.iter().copied().filter(|&one| after.is_none_or(|after| one > after)).min()?);
        earliest.extend(after);
    }
    let mut latest = Vec::with_capacity(fits.len());
    let mut before = usize::MAX;
    for fit in fits.iter().rev() {
        before = fit.iter().copied().filter(|&one| one < before).max()?;
        latest.push(before);
    }
    let limits = earliest.into_iter().zip(latest.into_iter().rev());
    let within = |(fit, (first, last)): (&Vec<usize>, (usize, usize))| {
        fit.iter().copied().filter(|one| (first..=last).contains(one)).collect()
    };
    Some(fits.iter().zip(limits).map(within).collect())
}

/// Puts expressions that contain others behind these, as they are evaluated: `f(b)` comes before `string(f(b))`. `what`
/// has an expression and its column. Precondition: they are in the order of their columns.
pub fn inner_first<'a>(list: &mut [usize], what: impl Fn(usize) -> (&'a str, u32)) {
    let mut at = 0;
    while at < list.len() {
        let (outer, column) = what(list[at]);
        let end = end(outer, column);
        let inside = |&index: &usize| {
            let (inner, column) = what(index);
            inner.len() < outer.len() && outer.contains(inner) && u64::from(column) < end
        };
        match list[at + 1..].iter().rposition(inside) {
            Some(last) => list[at..=at + 1 + last].rotate_left(1),
            None => at += 1,
        }
    }
}

/// The column behind an expression. The compiler gives that of its operator: the parenthesis of a call or conversion,
/// the bracket of an index, the point of a field.
fn end(what: &str, column: u32) -> u64 {
    let (mut depth, mut opened, mut point, mut operator) = (0_usize, 0, None, None);
    for (at, c) in what.char_indices() {
        match c {
            '(' | '[' | '{' => {
                if depth == 0 {
                    opened = at;
                }
                depth += 1;
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '.' if depth == 0 => point = Some(at),
            ' ' if depth == 0 => operator = Some(at + 1),
            _ => {}
        }
    }
    let closes = what.ends_with([')', ']', '}']).then_some(opened);
    // `a + b` has a space on either side of what is between them.
    let sum = operator.map(|at| at.saturating_sub(2));
    let operator = sum.or(closes).or(point).unwrap_or(0);
    u64::from(column) + (what.len() - operator) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_name_of_another_in_it_does_not_contain_it() {
        let order = |list: &[(&'static str, u32)]| -> Vec<&'static str> {
            let mut numbers: Vec<usize> = (0..list.len()).collect();
            inner_first(&mut numbers, |index| list[index]);
            numbers.into_iter().map(|number| list[number].0).collect()
        };
        // `f(a.name, a.n)`, `f(matrix[k], k)`, `f(g(n), n)`, `f(a + n, n)`.
        for beside in [
            [("a.name", 79), ("a.n", 87)],
            [("matrix[k]", 16), ("k", 21)],
            [("g(n)", 4), ("n", 8)],
            [("a + n", 5), ("n", 10)],
            [("name", 3), ("n", 9)],
        ] {
            assert_eq!(order(&beside), beside.map(|one| one.0));
        }
        // `f(g(n))`, `f(a + g(n))`, `f(matrix[g(n)])`.
        for within in [[("g(n)", 4), ("n", 5)], [("a + g(n)", 5), ("n", 9)], [("matrix[g(n)]", 16), ("g(n)", 18)]] {
            assert_eq!(order(&within), [within[1].0, within[0].0]);
        }
    }

    #[test]
    fn a_call_is_of_an_expression_between_those_of_its_neighbors() {
        for (what, fits, expected) in [
            ("as many", vec![vec![0, 1], vec![0, 1]], Some(vec![vec![0], vec![1]])),
            ("one expression has no call", vec![vec![0, 1, 2], vec![0, 1, 2]], Some(vec![vec![0, 1], vec![1, 2]])),
            ("one is certain", vec![vec![0, 1, 2], vec![1], vec![0, 1, 2]], Some(vec![vec![0], vec![1], vec![2]])),
            ("more calls than expressions", vec![vec![0], vec![0]], None),
            ("another order", vec![vec![1], vec![0]], None),
            ("nothing fits", vec![vec![]], None),
            ("no call", vec![], Some(vec![])),
        ] {
            assert_eq!(in_order(&fits), expected, "{what}");
        }
    }
}
